"""Follows the batch through a graph: which dim of each tensor is the batch, and which operators mix examples."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    VARIANT,
    called_functions,
    data_inputs,
    num_outputs,
    output_types,
    split_tensor,
    tensor_shape,
    topological_order,
)
from autodist.graph.batch._computed_as import ComputedAs
from autodist.graph.batch._computing import chosen
from autodist.graph.batch._lists import RULES as LISTS
from autodist.graph.batch._lists import merged
from autodist.graph.batch._rows import (
    APART,
    BY,
    BY_REPLICA,
    RETURNED,
    SCALING_OF,
    Batch,
    Call,
    Kind,
    Rows,
    Shape,
    Size,
    Value,
)
from autodist.graph.batch._sizes import Sizes
from autodist.graph.batch._table import RULES, rule_of
from autodist.graph.operators import BRANCHES, CALLS, LOOPS, is_kind, meaning, passes_on
from autodist.graph.operators import Kind as OperatorKind

_TURNS_PER_VALUE = 5
"""More iterations than the facts about a loop's value can change: each change leaves less known."""
_FLOW = BRANCHES | LOOPS | CALLS


class _Found(NamedTuple):
    """The facts about a node's outputs, and why examples meet in it, if they do."""

    values: list[Value]
    why: str | None = None


class Follower:
    """The facts about the batch in the tensors of a graph, node by node.

    Args:
        nodes: The graph, by name.
        bodies: Its functions.
        start: By node, facts about its outputs that are known beforehand.
        is_whole: Whether a tensor, although made from the batch, has the value of one device for those nodes that give
            a row per example or that gradients flow through.
        differentiable: The nodes that gradients flow through; it may grow.
        function: The function whose body the graph is, if it is one.

    Attributes:
        causes: By node in which examples meet, a text that says how they meet.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        bodies: FunctionBodies,
        start: Mapping[str, tuple[Value, ...]],
        is_whole: Callable[[str], bool] = lambda tensor: False,
        differentiable: Container[str] = (),
        function: str = "",
    ) -> None:
        self._nodes = nodes
        self._bodies = bodies
        self._is_whole = is_whole
        self._differentiable = differentiable
        self._values: dict[str, tuple[Value, ...]] = dict(start)
        self._shapes: dict[str, Shape] = {}
        self._calls: dict[tuple[str, tuple[Value, ...]], _Found] = {}
        self._computed_as = ComputedAs(nodes, f"{function}/" if function else "")
        self.causes: dict[str, str] = {}

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes(self._nodes, self.value)

    def value(self, tensor: str) -> Value:
        """The facts about a tensor."""
        name, index = split_tensor(tensor)
        found = self._values.get(name)
        if not found:  # nothing is known, or the node only changes variables
            return None
        return found[index] if index < len(found) else found[-1]

    def entries(self, tensor: str) -> tuple[Size, ...] | None:
        """The entries of a vector of whole numbers, as far as they are known; None where nothing is."""
        return self._sizes.of(tensor)

    def is_multiple(self, tensor: str) -> bool:
        """Whether a whole number is known to be that of the examples, or a multiple of it."""
        entries = self._sizes.of(tensor)
        return entries is not None and len(entries) == 1 and isinstance(entries[0], Batch)

    def visit(self, node: Any) -> None:
        """Find what is known of a node's outputs; its inputs were visited before."""
        tensors = data_inputs(node)
        values = [self.value(tensor) for tensor in tensors]
        is_returned = RETURNED in node.attr
        if not (is_returned or any(value is not None for value in values)):
            return
        results = self._results(node)
        is_open = any(shape is None or None in shape for shape in results)
        if is_open or node.name in self._differentiable or any(isinstance(value, Rows) for value in values):
            values = [None if self._is_whole(t) else v for t, v in zip(tensors, values, strict=True)]
            if not (is_returned or any(value is not None for value in values)):
                return
        found = self._follow(self._call(node, tensors, values, results))
        fitting = [_fitting(value, shape) for value, shape in zip(found.values, results, strict=False)]
        if BY_REPLICA in node.attr:
            fitting = [None if value is Kind.DATA else value for value in fitting]
        why = found.why
        if why is None and Kind.MET not in values and Kind.MET in fitting:
            why = "takes a fixed number of examples"
        if why is not None:
            self.causes[node.name] = why
        self._values[node.name] = tuple(fitting)

    def outcome(self, node: Any, values: Sequence[Value]) -> tuple[list[Value], str | None]:
        """The facts about a node's outputs if these were those about its inputs, and why examples would meet in it."""
        results = self._results(node)
        found = self._follow(self._call(node, data_inputs(node), values, results))
        return [_fitting(v, shape) for v, shape in zip(found.values, results, strict=True)], found.why

    def _call(self, node: Any, tensors: list[str], values: Sequence[Value], results: list[Shape]) -> Call:
        return Call(
            node,
            values,
            [self._shape(tensor) for tensor in tensors],
            results,
            lambda k: self._sizes.of(tensors[k]),
            lambda k: self._sizes.is_of_batch(tensors[k]),
            lambda k: self._sizes.selection_counted(tensors[k]),
            lambda k: self._computed_as.of(tensors[k]),
        )

    def _shape(self, tensor: str) -> Shape:
        if tensor not in self._shapes:
            self._shapes[tensor] = tensor_shape(self._nodes, tensor)
        return self._shapes[tensor]

    def _results(self, node: Any) -> list[Shape]:
        count = num_outputs(node)
        return [self._shape(node.name if k == 0 else f"{node.name}:{k}") for k in range(max(1, count))]

    def _follow(self, call: Call) -> _Found:
        count = len(call.results)
        if APART in call.node.attr:
            return _Found([_by_shape(shape) for shape in call.results])
        if RETURNED in call.node.attr:
            return _Found([_by_shape(shape) if _has_one_open_dim(shape) else Kind.DATA for shape in call.results])
        if SCALING_OF in call.node.attr:
            return _Found([_alike(self.value(call.node.attr[SCALING_OF].s.decode()))])
        if BY in call.node.attr:
            return _Found([call.values[1]] * count)
        if is_kind(call.node.op, OperatorKind.SHAPE):
            return _Found([self._size(call, k) for k in range(count)])
        if call.node.op in _FLOW:
            flow = self._flow(call)
            return _Found([_selected_in(call, value) for value in flow.values], flow.why)
        if Kind.MET in call.values:
            return _Found([Kind.MET] * count)
        found = self._judged(call)
        if isinstance(found, str):
            return _Found([Kind.MET] * count, found)
        values = found if isinstance(found, list) else [found] * count
        return _Found(values, _words(call) if Kind.MET in values else None)

    def _size(self, call: Call, index: int) -> Value:
        """For a number or a shape, whether the number of examples is in it."""
        entries = self._sizes.of(call.node.name if index == 0 else f"{call.node.name}:{index}")
        return None if entries is not None and all(isinstance(e, int) for e in entries) else Kind.SIZE

    def _judged(self, call: Call) -> Value | list[Value] | str:
        """The answer of a node's rule, or the reason why there is no rule that can be followed."""
        op, rule = call.node.op, rule_of(call.node.op)
        rows = [value for value in call.values if isinstance(value, Rows)]
        if Kind.ROW in call.values and meaning(op).list_use not in LISTS:
            return "combines an example with others" if rows or Kind.DATA in call.values else Kind.ROW
        if not rows and meaning(op).list_use not in LISTS:
            return self._made(call)
        if Kind.DATA in call.values:
            return "uses a value of all examples together with each example's own"
        if (
            Kind.SIZE in call.values
            and rule is not chosen
            and is_kind(op, OperatorKind.ELEMENTWISE)
            and not passes_on(op)
        ):
            return "uses the number of examples together with each example's values"
        return "is not known to keep examples apart" if rule is None else rule(call)

    def _made(self, call: Call) -> Value | list[Value] | str:
        """The result of sizes, and of values of all examples."""
        is_range = call.node.op == "Range"
        if Kind.DATA in call.values:
            lengths = call.values if is_range else call.values[: meaning(call.node.op).creates]
            is_open = any(shape is None or None in shape for shape in call.results)
            return "makes as many elements as examples together say" if Kind.DATA in lengths and is_open else Kind.DATA
        if _is_list(call.node) or all(shape is not None and None not in shape for shape in call.results):
            return None if _is_list(call.node) else [self._size(call, k) for k in range(len(call.results))]
        if meaning(call.node.op).creates or is_range:
            return RULES[call.node.op](call) if call.node.op in RULES else RULES["Fill"](call)
        return "is not known to keep examples apart"

    # Control flow ------------------------------------------------------------------------------------------------

    def _flow(self, call: Call) -> _Found:
        attr = call.node.attr
        if call.node.op in CALLS:
            return self._called(attr["f"].func.name, call.values)
        if call.node.op in LOOPS:
            return self._loop(attr["cond"].func.name, attr["body"].func.name, list(call.values))
        found = [self._called(branch.name, call.values[1:]) for branch in called_functions(call.node)]
        values = found[0].values
        for other in found[1:]:
            values = [merged(a, b) for a, b in zip(values, other.values, strict=False)]
        why = next((f.why for f in found if f.why is not None), None)
        if call.values[0] is Kind.ROW:
            return _Found([Kind.ROW] * len(values), why)
        if call.values[0] is not None:
            return _Found([Kind.MET] * len(values), why or "depends on a condition on all examples")
        return _Found(values, why or (_words(call) if Kind.MET in values else None))

    def _loop(self, condition: str, body: str, values: list[Value]) -> _Found:
        why, over_examples = None, Rows(-1) in values
        for _ in range(_TURNS_PER_VALUE * len(values) + 1):
            turn = self._called(body, values)
            after = [_carried(a, b, over_examples) for a, b in zip(values, turn.values, strict=False)]
            why = turn.why
            if after == values:
                break
            values = after
        if Kind.MET in values:
            why = why or "goes from example to example in a loop"
        lasts = self._called(condition, values).values[0]
        if lasts not in (None, Kind.SIZE):
            return _Found([v if v is None else Kind.MET for v in values], "loops as long as some example needs it")
        if lasts is Kind.SIZE:
            after = self._after_all(body, values)
            is_met = Kind.MET in after and Kind.MET not in values
            return _Found(after, why or ("takes a turn for each example" if is_met else None))
        return _Found(values, why)

    def _after_all(self, body: str, values: list[Value]) -> list[Value]:
        """The outcome of a loop with one iteration per example: only lists may hold values of single examples."""
        kept = [a == r for a, r in zip(self._bodies.arguments(body), self._origins(body), strict=False)]
        return [v if is_kept else _by_turns(v) for v, is_kept in zip(values, kept, strict=False)]

    def _origins(self, function: str) -> list[str]:
        """The results of a function, without the nodes that merely pass them on."""
        nodes, found = self._bodies.nodes(function), []
        for tensor in self._bodies.results(function):
            while nodes[split_tensor(tensor)[0]].op == "Identity":
                tensor = data_inputs(nodes[split_tensor(tensor)[0]])[0]
            found.append(tensor)
        return found

    def _called(self, function: str, values: Sequence[Value]) -> _Found:
        key = (function, tuple(values))
        if key not in self._calls:
            self._calls[key] = self._run(function, values)
        return self._calls[key]

    def _run(self, function: str, values: Sequence[Value]) -> _Found:
        nodes = self._bodies.nodes(function)
        arguments = self._bodies.arguments(function)
        start = {name: (value,) for name, value in zip(arguments, values, strict=False)}
        known = {k: v for k, v in start.items() if v != (None,)}
        inside = Follower(nodes, self._bodies, known, function=function)
        for name in topological_order(nodes):
            if name not in start:
                inside.visit(nodes[name])
        results = self._bodies.results(function)
        cause = next(iter(inside.causes), None)
        why = None if cause is None else f"{inside.causes[cause]}, in `{cause}` ({nodes[cause].op})"
        return _Found([inside.value(tensor) for tensor in results], why)


def _selected_in(call: Call, value: Value) -> Value:
    """A value that a function returns, with a selection of its own if it was made there."""
    given = {"", None, *(v.selection for v in call.values if isinstance(v, Rows))}
    if not isinstance(value, Rows) or value.selection in given:
        return value
    return replace(value, selection=f"{call.node.name}/{value.selection}")


def _carried(before: Value, after: Value, over_examples: bool) -> Value:
    """The values that a loop passes on: nothing may pass from an example to the next."""
    if after is Kind.ROW and (over_examples or before is not Kind.ROW):
        return Kind.MET
    return merged(before, after)


def _by_turns(value: Value) -> Value:
    """A value that the iterations of a loop over examples change, one after the other."""
    if value is None:
        return Kind.SIZE
    return Kind.MET if isinstance(value, Rows) and value.dim >= 0 else value


def _by_shape(shape: Shape) -> Value:
    """The batch in a result of a function known to keep examples apart: the dim of unknown size."""
    return Rows(shape.index(None), None, None) if shape is not None and None in shape else None


def _has_one_open_dim(shape: Shape) -> bool:
    return shape is not None and shape.count(None) == 1


def _alike(value: Value) -> Value:
    """A look-up for each of these values: its dims follow theirs."""
    return replace(value, position=None, stride=1) if isinstance(value, Rows) else value


def _fitting(value: Value, shape: Shape) -> Value:
    """A value that agrees with the static shape: the dim of the batch is an open one."""
    if isinstance(value, Rows) and value.dim >= 0 and shape:
        return value if value.dim < len(shape) and shape[value.dim] is None else Kind.MET
    return value


def _is_list(node: Any) -> bool:
    return VARIANT in output_types(node)


def _words(call: Call) -> str:
    """The words for how examples meet, for an operator whose rule says that they do."""
    if any(isinstance(value, Rows) and value.position is not None for value in call.values):
        return "computes with numbers of examples within the batch"
    return "lets examples of a batch meet"
