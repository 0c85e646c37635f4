"""Where groups of replicas meet in a step; each group computes from its part of the batch as one replica would.

A group computes the loss of its own examples. Where a value of all examples is needed, a node is added, at which the
groups' values become that of the whole batch. Gradients have their marks for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autodist.graph import (
    BatchScaling,
    GraphEditor,
    TrainingGraph,
    data_inputs,
    node_of,
    normalize,
    split_tensor,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.batch import BY_REPLICA
from autodist.graph.layouts import NoPlanError
from autodist.kernels.replicate._constant_parts import has_constant_part, linear_inputs
from autodist.kernels.replicate._counter_based import elements_of_rows
from autodist.kernels.replicate._demand import NodeDemand
from autodist.kernels.replicate._warnings import inexact_of
from autodist.kernels.replicate._weights import GradientWeights

_ROWS = frozenset({BatchScaling.ROWS, BatchScaling.SUBSET})


@dataclass(frozen=True)
class GroupMeetings:
    """A step that computes values of the whole batch from those of groups.

    Attributes:
        graph: The step with the added nodes, which pass on their input as long as there is one group.
        scalings: By such a node, how the groups' values become one.
        sizes: By such a node whose value is a shape, that shape, with None for what grows with the batch.
        weights: By mark of a gradient, ``share`` where it is that of a mean over the batch, ``active`` of a sum.
    """

    graph: TrainingGraph
    scalings: Mapping[str, BatchScaling]
    sizes: Mapping[str, tuple[int | None, ...]]
    weights: Mapping[str, str]

    @classmethod
    def of(cls, graph: TrainingGraph, demand: NodeDemand) -> GroupMeetings:
        """Find where groups have to meet.

        Raises:
            NoPlanError: Groups can't compute the losses of their own examples so that all is as on one device.
        """
        _refuse(graph, demand)
        return _Meetings(graph, demand).found()


def _refuse(graph: TrainingGraph, demand: NodeDemand) -> None:
    """Refuse what each group would compute differently from one device."""
    nodes, synchronized = demand.analysis.nodes, demand.analysis.synchronized
    normal = [name for name in demand.replica if name in synchronized or BY_REPLICA in nodes[name].attr]
    found = [
        *(f"batch normalization takes all examples, `{name}`" for name in sorted(normal)),
        *inexact_of(graph, demand),
        *(f"`{name}` changes variables by example" for name in demand.analysis.writes if name in demand.replica),
        *(f"`{name}` draws random numbers that no counter gives" for name in _drawn_apart(demand)),
        *(f"it goes on with gradients, `{name}`" for name in sorted(demand.intermediate)),
        *(f"it goes on with gradients, `{name}`" for name in demand.cuts if name in demand.analysis.joined),
    ]
    if graph.fixed_rows is not None:
        found.append(f"it is for batches of {graph.fixed_rows} rows only")
    if found:
        raise NoPlanError(f"groups of replicas have parts of the batch, and {found[0]}")


def _drawn_apart(demand: NodeDemand) -> list[str]:
    """The nodes that draw random numbers for examples, but not those that one device draws for a group's examples."""
    return [name for name in demand.draws if elements_of_rows(demand.analysis, name) is None]


class _Meetings:
    def __init__(self, graph: TrainingGraph, demand: NodeDemand) -> None:
        self._graph = graph
        self._demand = demand
        self._analysis = demand.analysis
        self._nodes = demand.analysis.nodes
        copy = type(graph.graph_def)()
        copy.CopyFrom(graph.graph_def)
        self._editor = GraphEditor(copy)
        self._met: dict[str, str] = {}
        self._copied: dict[str, str] = {}
        self._scalings: dict[str, BatchScaling] = {}
        self._sizes: dict[str, tuple[int | None, ...]] = {}

    def found(self) -> GroupMeetings:
        marks = [name for name in self._demand.cuts if name in self._analysis.marks]
        for tensor, scaling in self._demand.cuts.items():
            if tensor not in self._analysis.marks:
                self._met[normalize(tensor)] = self._meeting(tensor, scaling)
        for name in self._analysis.order:
            if name in self._demand.worker:
                self._compute_of_all(name)
            if name in self._demand.replica:
                self._take_of_all(name)
        outputs = tuple(replace(output, tensor=self._of_all(output.tensor)) for output in self._graph.outputs)
        graph = replace(self._graph, graph_def=self._editor.finish(), outputs=outputs)
        weights = GradientWeights(self._analysis, self._demand, "auto")
        by_mark = {mark: self._weight(mark, weights.of(mark)) for mark in marks}
        return GroupMeetings(graph, self._scalings, self._sizes, by_mark)

    def _weight(self, mark: str, weight: str) -> str:
        if weight == "active" and has_constant_part(self._analysis, self._nodes[mark].input[0]):
            raise NoPlanError(
                f"groups of replicas have parts of the batch, and `{mark}` is a gradient of a sum over the batch and "
                "of what does not depend on it"
            )
        return weight

    def _meeting(self, tensor: str, scaling: BatchScaling) -> str:
        """The value for the whole batch of a tensor of which each group has its own value."""
        if scaling is BatchScaling.SAME:
            return tensor  # no group's value depends on its examples, but perhaps on values of the whole batch
        node = self._nodes[node_of(tensor)]
        label = tensor.replace(":", "_")
        if scaling is BatchScaling.SUM and has_constant_part(self._analysis, tensor):
            inputs = data_inputs(node)
            for k in linear_inputs(self._analysis, node):
                if node_of(inputs[k]) in self._analysis.scalings:
                    inputs[k] = self._meeting(inputs[k], scaling)
            met = self._editor.clone(node, f"autodist/met/{label}/sum", inputs, device=node.device)
            index = split_tensor(tensor)[1]
            return f"{met}:{index}" if index else met
        name = f"autodist/met/{label}"
        if name in self._scalings:
            return name
        shape = tensor_shape(self._nodes, tensor)
        if scaling in _ROWS and shape is not None and None in shape[1:]:
            raise NoPlanError(f"groups of replicas have parts of the batch, which can't be put together in `{tensor}`")
        if scaling is BatchScaling.SHAPE:
            static = self._analysis.dependence.static_shape(tensor)
            assert static is not None, tensor
            self._sizes[name] = static
        self._scalings[name] = scaling
        dtype = tensor_dtype(self._nodes, tensor)
        return self._editor.add("Identity", name, [tensor], T=dtype, device=node.device)

    def _of_all(self, tensor: str) -> str:
        """The tensor of the whole batch that replaces a group's tensor."""
        found = self._met.get(normalize(tensor))
        if found is not None:
            return found
        copy = self._copied.get(node_of(tensor))
        return tensor if copy is None else tensor.replace(node_of(tensor), copy, 1)

    def _compute_of_all(self, name: str) -> None:
        """Have a node compute from values of the whole batch, or a copy of it if groups need the node as well."""
        node = self._nodes[name]
        given = [self._of_all(tensor) for tensor in data_inputs(node)]
        if name in self._analysis.marks or given == data_inputs(node):
            return
        waits = [tensor for tensor in node.input if tensor.startswith("^")]
        if name in self._demand.replica:
            copy = f"autodist/of_all/{name}"
            self._copied[name] = self._editor.clone(node, copy, [*given, *waits], device=node.device)
        else:
            self._editor.set_inputs(name, [*given, *waits])

    def _take_of_all(self, name: str) -> None:
        """Have a node of the groups take values of the whole batch in those inputs where it needs these."""
        node, demand = self._nodes[name], self._demand
        given = [t if demand.from_replica(t, name) else self._of_all(t) for t in data_inputs(node)]
        changed = [t for t, to in zip(data_inputs(node), given, strict=True) if t != to]
        if not changed:
            return
        shapes = [tensor_shape(self._nodes, tensor) for tensor in changed]
        if any(shape is None or None in shape for shape in shapes):
            raise NoPlanError(f"groups of replicas have parts of the batch, and `{name}` takes rows of all of it")
        waits = [tensor for tensor in node.input if tensor.startswith("^")]
        self._editor.set_inputs(name, [*given, *waits])
