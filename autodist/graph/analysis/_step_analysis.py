"""The nodes of a flat step: which depend on the batch, which write which variable, which gradients reach where.

All of it is derived from the GraphDef alone, so that a kernel can ask again after a graph was loaded from a file.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    called_functions,
    data_inputs,
    is_stateful,
    node_of,
    reachable_functions,
)
from autodist.graph._index import GraphIndex
from autodist.graph.analysis._batch_scaling import ROWLIKE, BatchScaling
from autodist.graph.analysis._dependence import BatchDependence
from autodist.graph.analysis._own_gradients import bent_gradients
from autodist.graph.analysis._reduction import Reduction, reduction_of
from autodist.graph.annotations import (
    GIVEN,
    MARK,
    SECOND,
    SEED,
    TARGET,
    GradientMark,
    NestedDifferentiation,
    TensorGradient,
    by_of,
    parse_mark,
    ratio_of,
)
from autodist.graph.batch import SYNCHRONIZED
from autodist.graph.operators import (
    BRANCHES,
    CALLS,
    LOOPS,
    Handle,
    Kind,
    Passes,
    first_argument,
    is_kind,
    meaning,
    passes_on,
)

_WITH_FUNCTIONS = BRANCHES | LOOPS | CALLS
_BY_ROW = frozenset({BatchScaling.ROWS, BatchScaling.SUBSET, BatchScaling.SAME, BatchScaling.SHAPE})


@dataclass(frozen=True)
class Write:
    """A node that changes variables: its name and the handle placeholders of what it writes."""

    node: str
    handles: tuple[str, ...]


class StepAnalysis:
    """A flat GraphDef, indexed.

    Args:
        graph_def: The flat graph.
        handles: Names of the placeholders of variables' resource handles.
        split: Names of the placeholders whose dim 0 is the batch.
        index: The index of the graph, if there is one.
    """

    def __init__(
        self, graph_def: Any, handles: Iterable[str], split: Iterable[str], index: GraphIndex | None = None
    ) -> None:
        self.graph_def = graph_def
        self.index = GraphIndex.of(graph_def) if index is None else index
        self.nodes = self.index.nodes
        self.handles = frozenset(handles)
        self.split = tuple(split)
        self.derived: dict[object, Any] = {}
        """A cache for other modules: their findings about the step, each under a key of its own."""

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """By node, the nodes whose data it reads; computed once, because every question below goes through it."""
        return self.index.sources

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """By node, the nodes that read its data; those that are not read are left out."""
        found: dict[str, list[str]] = {}
        for name, sources in self.sources.items():
            for source in dict.fromkeys(sources):
                found.setdefault(source, []).append(name)
        return {name: tuple(consumers) for name, consumers in found.items()}

    @cached_property
    def order(self) -> list[str]:
        """Node names, inputs before consumers."""
        return self.index.order

    @cached_property
    def depths(self) -> dict[str, int]:
        """By node, the number of nodes on the longest path from the step's begin to it, itself included."""
        depths: dict[str, int] = {}
        for name in self.order:
            depths[name] = 1 + max((depths[source] for source in self.sources[name]), default=0)
        return depths

    @cached_property
    def made_of_values(self) -> frozenset[str]:
        """The nodes whose data comes from constants and variables alone, such as the whole of a variable in parts."""
        found: set[str] = set()
        for name in self.order:
            node, sources = self.nodes[name], self.sources[name]
            passes_on = node.op == "ReadVariableOp" or not is_stateful(node.op)
            if node.op == "Const" or name in self.handles or (sources and passes_on and found.issuperset(sources)):
                found.add(name)
        return frozenset(found)

    def depth_of_use(self, names: Iterable[str], within: Container[str] | None = None) -> int | None:
        """The depth at which values are first computed with: the least at which they are combined with other data.

        Args:
            names: Nodes that take the values. Those that only give them another form don't count.
            within: Only these nodes count, by default all.

        Returns:
            None where nothing is computed with them.
        """
        stack, passed, depths = list(names), set(), []
        while stack:
            name = stack.pop()
            if name in passed or (within is not None and name not in within):
                continue
            passed.add(name)
            if name in self.made_of_values or _is_form(self.nodes[name].op):
                stack.extend(self.consumers.get(name, ()))
            else:
                depths.append(self.depths[name])
        return min(depths, default=None)

    @cached_property
    def marks(self) -> dict[str, GradientMark]:
        """The marks that count: late ones after an early one are left out."""
        found = {name: parse_mark(node.attr[MARK].s) for name, node in self.nodes.items() if MARK in node.attr}
        found = {name: mark for name, mark in found.items() if mark.part != SECOND}
        early = {name for name, mark in found.items() if not mark.late}
        behind = self.reached(early)
        return {name: mark for name, mark in found.items() if not (mark.late and behind.get(name))}

    @cached_property
    def joined(self) -> frozenset[str]:
        """The gradients at which replicas meet in the middle of a step; see :class:`BatchDependence`."""
        return frozenset(self.dependence.joined)

    @cached_property
    def by_tensors(self) -> dict[str, TensorGradient]:
        """The gradients with respect to tensors other than variables."""
        kinds = {name: by_of(node) for name, node in self.nodes.items()}
        return {name: by for name, by in kinds.items() if by is not None}

    @cached_property
    def ratios(self) -> dict[str, NestedDifferentiation]:
        """The nodes at which the weight of one differentiation is exchanged for that of another."""
        kinds = {name: ratio_of(node) for name, node in self.nodes.items()}
        return {name: ratio for name, ratio in kinds.items() if ratio is not None}

    @cached_property
    def synchronized(self) -> tuple[str, ...]:
        """The nodes that must be computed from the whole batch; see `graph/tracing/_batch_norm.py`."""
        inside = {name for name, f in self.functions.items() if any(SYNCHRONIZED in n.attr for n in f.node_def)}

        def is_synchronized(node: Any) -> bool:
            if SYNCHRONIZED in node.attr:
                return True
            called = reachable_functions(self.functions, node) if inside else ()
            return any(function.signature.name in inside for function in called)

        return tuple(name for name in self.scalings if is_synchronized(self.nodes[name]))

    @cached_property
    def bent(self) -> tuple[str, ...]:
        """The nodes of gradients that are not linear in what comes from above; see `_own_gradients.py`."""
        backward = [name for name in self.order if self.dependence.is_backward(name)]
        return bent_gradients(self.nodes, backward, lambda tensor: self.scaling(tensor) in ROWLIKE, self.bodies)

    @cached_property
    def begins_apart(self) -> tuple[str, ...]:
        """The initial gradients (``output_gradients=``) that replicas compute from their own parts of the batch."""
        given = (name for name in self.order if SEED in self.nodes[name].attr and name in self.scalings)
        return tuple(name for name in given if self.nodes[name].attr[SEED].s == GIVEN and self._is_apart(name))

    def _is_apart(self, name: str) -> bool:
        """Whether a tensor depends on numbers, sums or means of a replica's rows, or on several rows together."""
        made_by = self.dependence.computed_by_replicas(self.nodes[name].input[:1])
        return any(scaling not in _BY_ROW for source in made_by for scaling in self.scalings[source])

    def is_joined(self, name: str) -> bool:
        """Whether a node has the whole batch's value, although it is made from the replicas' own ones."""
        return self._is_marked(name) or name in self.dependence.joined

    def _is_marked(self, name: str) -> bool:
        if self.nodes[name].op == "RngReadAndSkip":  # its result does not depend on the batch
            return True
        return name in self.marks

    @cached_property
    def bodies(self) -> FunctionBodies:
        """The functions of control flow, as graphs."""
        return FunctionBodies(self.graph_def)

    @cached_property
    def dependence(self) -> BatchDependence:
        """How the nodes depend on the batch."""
        return BatchDependence(
            self.nodes, self.sources, self.order, self.split, self.handles, self._is_marked, self.bodies
        )

    @property
    def scalings(self) -> dict[str, tuple[BatchScaling, ...]]:
        """Scalings of the nodes that depend on the batch; see :class:`BatchScaling`."""
        return self.dependence.scalings

    def scaling(self, tensor: str) -> BatchScaling:
        """How a tensor scales with the batch."""
        return self.dependence.scaling(tensor)

    @cached_property
    def targets(self) -> dict[int, tuple[str, ...]]:
        """By number of a differentiation, the tensors that were differentiated, as far as they depend on the batch."""
        found: dict[int, tuple[str, ...]] = {}
        for node in self.nodes.values():
            if TARGET in node.attr and self.scaling(node.input[0]) is not BatchScaling.CONSTANT:
                number = int(node.attr[TARGET].s)
                found[number] = (*found.get(number, ()), node.input[0])
        return found

    def taken_of(self, gradient: str) -> tuple[str, ...]:
        """The tensors that were differentiated for a gradient, as far as they depend on the batch.

        If no tape has taken it, it may be written by hand: then it is a sum or a mean itself.

        Args:
            gradient: Name of a mark, or of a gradient by a tensor.
        """
        mark = self.marks.get(gradient)
        if mark is not None and mark.target < 0:
            return (self.nodes[gradient].input[0],)
        return self.targets.get(self.by_tensors[gradient].target if mark is None else mark.target, ())

    def reduction(self, gradient: str) -> Reduction | None:
        """How replicas' gradients combine, as far as that is known; of which gradients, see :meth:`taken_of`."""
        return self._reduction(self.taken_of(gradient))

    def reduction_of_target(self, target: int) -> Reduction | None:
        """How replicas' gradients of one differentiation combine, as far as that is known."""
        return self._reduction(self.targets.get(target, ()))

    def _reduction(self, tensors: Iterable[str]) -> Reduction | None:
        found = {reduction_of(self.dependence, tensor) for tensor in tensors} or {"mean"}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def handle_of(self) -> dict[str, str]:
        """For every tensor that is a variable's handle, the placeholder it comes from."""
        found = {name: name for name in self.handles}
        for name in [name for name, node in self.nodes.items() if node.op == "Identity"]:
            source = name
            while source not in found and self.nodes[source].op == "Identity":
                source = self.sources[source][0]
            if source in found:
                found[name] = found[source]
        return found

    def touched(self, node: Any) -> tuple[str, ...]:
        """Handles that are inputs of the node."""
        return self.touched_by(node.name)

    def touched_by(self, name: str) -> tuple[str, ...]:
        """Handles that are inputs of the node of a name."""
        return self._touched.get(name, ())

    @cached_property
    def _touched(self) -> dict[str, tuple[str, ...]]:
        handle_of = self.handle_of
        found = {name: [handle_of[s] for s in sources if s in handle_of] for name, sources in self.sources.items()}
        return {name: tuple(dict.fromkeys(handles)) for name, handles in found.items() if handles}

    @cached_property
    def writes(self) -> dict[str, Write]:
        """The nodes that change variables."""
        found = {}
        for name in self.order:
            handles = self._written(self.nodes[name]) if name in self._touched else ()
            if handles:
                found[name] = Write(name, handles)
        return found

    @cached_property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """The nodes that only read variables, with their handles."""
        return {
            name: handles
            for name, handles in self._touched.items()
            if name not in self.writes and not _gives_handle(self.nodes[name].op)
        }

    def _written(self, node: Any) -> tuple[str, ...]:
        if meaning(node.op).handle is Handle.READS or _gives_handle(node.op):
            return ()
        if node.op not in _WITH_FUNCTIONS:
            return self.touched(node)
        positions = self._written_arguments(node)
        data = data_inputs(node)
        handles = (self.handle_of.get(node_of(data[first_argument(node.op) + k])) for k in sorted(positions))
        return tuple(dict.fromkeys(handle for handle in handles if handle is not None))

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The functions of control flow, by name."""
        return {function.signature.name: function for function in self.graph_def.library.function}

    def _written_arguments(self, node: Any) -> set[int]:
        """Argument positions that the functions of a control-flow node (or a call) write to."""
        functions = (called.name for called in called_functions(node))
        return {position for name in functions for position in self._written_by_function(name)}

    def _written_by_function(self, name: str) -> set[int]:
        function = self.functions[name]
        positions = {arg.name: k for k, arg in enumerate(function.signature.input_arg)}
        alias = {arg: arg for arg in positions}
        written: set[int] = set()
        for node in function.node_def:
            inputs = [t.split(":")[0] for t in node.input if not t.startswith("^")]
            if node.op == "Identity" and inputs[0] in alias:
                alias[node.name] = alias[inputs[0]]
                continue
            if meaning(node.op).handle is Handle.READS:
                continue
            nested = node.op in _WITH_FUNCTIONS
            first = first_argument(node.op)
            hit = {k + first for k in self._written_arguments(node)} if nested else range(len(inputs))
            resources = self._resource_arguments(function)
            written |= {positions[alias[inputs[k]]] for k in hit if alias.get(inputs[k]) in resources}
        return written

    @staticmethod
    def _resource_arguments(function: Any) -> set[str]:
        from tensorflow.core.framework import types_pb2

        return {arg.name for arg in function.signature.input_arg if arg.type == types_pb2.DT_RESOURCE}

    def reached(self, sources: Iterable[str], stop: Container[str] = ()) -> dict[str, int]:
        """By node, a bit set (as an int) of the `sources` whose data reaches it, itself included.

        Data comes as far as to nodes in `stop`, but not beyond.
        """
        bits = {name: 1 << k for k, name in enumerate(sources)}
        for name in self.order:
            own = bits.get(name, 0)
            for source in self.sources[name]:
                own |= 0 if source in stop else bits.get(source, 0)
            if own:
                bits[name] = own
        return bits

    def gradient_bits(self, mark_bit: dict[str, int], slot_bits: dict[str, int] | None = None) -> dict[str, int]:
        """By node, which synchronized gradients its value depends on, as a bit set.

        Args:
            mark_bit: The bit of each mark. What precedes a mark does not count after it.
            slot_bits: By variable handle, bits that a read of that variable brings along.
        """
        bits: dict[str, int] = {}
        for name in self.order:
            if name in mark_bit:
                bits[name] = mark_bit[name]
                continue
            own = 0
            for source in self.sources[name]:
                own |= bits.get(source, 0)
            for handle in self._touched.get(name, ()) if slot_bits else ():
                own |= slot_bits.get(handle, 0) if slot_bits else 0
            if own:
                bits[name] = own
        return bits


def _is_form(op: str) -> bool:
    """Whether an op gives values another form: it takes no time, but waits for all that it is given."""
    return passes_on(op) or is_kind(op, Kind.MOVING, Kind.SHAPE)


def _gives_handle(op: str) -> bool:
    """Whether an operator that touches a variable is its handle, or passes that on."""
    return is_kind(op, Kind.SOURCE) or passes_on(op, Passes.SAME)
