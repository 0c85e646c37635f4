"""Where groups of replicas meet in a step; each group computes from its part of the batch as one replica would.

The step is planned for groups as it is for replicas that have no tiled variables, so that its values are those of one
device: a group has its rows of a tensor, a part of a sum, or all of it. From that comes the step of one group. Where
another form is needed, a node is added at which the groups' values become that of the whole batch, or from which a
group takes its rows. Gradients have their marks for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autodist.graph import (
    GraphEditor,
    TrainingGraph,
    data_inputs,
    node_of,
    normalize,
    tensor_dtype,
    tensor_label,
    tensor_name,
)
from autodist.graph.layouts import (
    WHOLE,
    BatchPlan,
    Cut,
    Dim,
    Layout,
    NoPlanError,
    Partial,
    Way,
    is_part_of_mean,
    plan_batch,
)
from autodist.graph.operators import Kind, is_kind
from autodist.kernels._base import Combine
from autodist.kernels.replicate._demand import NodeDemand
from autodist.kernels.replicate._group_forms import PARTS, GroupForms
from autodist.kernels.replicate._group_numbers import GroupNumbers, Number
from autodist.kernels.replicate._selected_rows import SelectedRows


@dataclass(frozen=True)
class GroupMeetings:
    """A step that computes values of the whole batch from those of groups.

    The added nodes pass on their input, as they do where there is one group.

    Attributes:
        graph: The step with the added nodes.
        joined: By such a node, how the groups' values become one.
        sizes: By such a node whose value is a size of tensors of the whole batch, its entries.
        numbers: By such a node whose value is a number that a group knows, which.
        weights: By mark of a gradient, ``active`` where groups have parts of a sum, ``share`` where all have the same.
    """

    graph: TrainingGraph
    joined: Mapping[str, Combine]
    sizes: Mapping[str, tuple[Dim, ...]]
    numbers: Mapping[str, Number]
    weights: Mapping[str, Number]

    @cached_property
    def names(self) -> frozenset[str]:
        """The added nodes whose value no replica of a group can compute from a part of its input."""
        return frozenset((*self.joined, *self.sizes, *self.numbers))

    @classmethod
    def of(cls, graph: TrainingGraph, demand: NodeDemand) -> GroupMeetings:
        """Find where groups have to meet.

        Raises:
            NoPlanError: Groups can't share the step so that all is as on one device.
        """
        if graph.fixed_rows is not None:
            raise NoPlanError(f"{PARTS}, and it is for batches of {graph.fixed_rows} rows only")
        for name in sorted(demand.intermediate):
            raise NoPlanError(f"{PARTS}, and it goes on with gradients, `{name}`", name)
        return _Meetings(graph, plan_batch(graph)).found()


class _Meetings:
    def __init__(self, graph: TrainingGraph, plan: BatchPlan) -> None:
        self._graph = graph
        self._plan = plan
        self._nodes = graph.analysis.nodes
        copy = type(graph.graph_def)()
        copy.CopyFrom(graph.graph_def)
        self._editor = GraphEditor(copy)
        self._selected = SelectedRows.of(graph)
        self._sources = self._selected.layouts(plan.layouts)
        self._had: dict[tuple[str, Layout], str] = {}
        batch = graph.analysis.split[0]
        self._numbers = GroupNumbers(self._editor, (batch, tensor_dtype(self._nodes, batch)))
        self._forms = GroupForms(self._nodes, plan, self._editor, self._numbers)

    def found(self) -> GroupMeetings:
        weights = {}
        for name in self._plan.order:
            if name in self._plan.marks:
                weights[name] = self._meet_at_mark(name)
            elif name in self._selected.nodes:
                self._select(self._nodes[name])
            else:
                self._place(self._nodes[name])
        outputs = tuple(replace(output, tensor=self._as(output.tensor, WHOLE)) for output in self._graph.outputs)
        graph = replace(self._graph, graph_def=self._editor.finish(), outputs=outputs)
        return GroupMeetings(graph, self._forms.joined, self._numbers.sizes, self._numbers.known, weights)

    def _meet_at_mark(self, name: str) -> Number:
        """Give a mark what a group has of a gradient."""
        self._had[name, WHOLE] = name
        if name in self._selected.sources:
            return "share" if self._sources[self._selected.sources[name]] == WHOLE else "active"
        tensor, layout = self._nodes[name].input[0], self._plan.marks[name]
        is_same = layout == WHOLE or (layout == Partial() and self._source(tensor, layout) == WHOLE)
        self._take(name, [self._as(tensor, WHOLE if is_same else layout)])
        return "share" if is_same else "active"

    def _select(self, node: Any) -> None:
        """Have a node select among the rows that a group has."""
        found = ((tensor, self._sources.get(normalize(tensor))) for tensor in data_inputs(node))
        self._take(node.name, [tensor if to is None else self._as(tensor, to) for tensor, to in found])

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _place(self, node: Any) -> None:
        """Have a node compute what a group has, and a copy of it what all have, where both are needed."""
        ways = self._plan.ways[node.name]
        count = len(ways[0].outputs)
        if self._plan.asks(node):
            self._ask(node, count)
            return
        apart = [way for way in ways if not way.is_whole]
        for number, way in enumerate(ways):
            inputs = self._inputs(node, way)
            self._check(node, way)
            is_first = way == (apart or ways)[0]
            made = node.name if is_first else self._copied(node, inputs, f"autodist/of_groups/{number}/{node.name}")
            if is_first:
                self._take(node.name, inputs)
            if is_part_of_mean(node, way):
                dtype = tensor_dtype(self._nodes, node.name)
                made = self._forms.weighted(f"autodist/part/{made}", made, "share", dtype)
            for k, layout in enumerate(way.outputs):
                self._had[tensor_name(node.name, k), layout] = tensor_name(made, k)

    def _ask(self, node: Any, outputs: int) -> None:
        """Give the sizes that a node asks for, those of tensors of the whole batch.

        Also where they don't depend on it: a group can't ask, since it may have rows of one tensor and all of another.
        """
        for tensor in (tensor_name(node.name, k) for k in range(outputs)):
            entries, is_scalar = self._plan.shapes.numbers(tensor) or (), self._plan.shapes.shape(tensor) == ()
            name, dtype = f"autodist/size/{tensor_label(tensor)}", tensor_dtype(self._nodes, tensor)
            self._had[tensor, WHOLE] = self._numbers.size(name, entries, dtype, is_scalar=is_scalar)

    def _check(self, node: Any, way: Way) -> None:
        analysis = self._graph.analysis
        if node.name in analysis.writes and not way.is_whole:
            raise NoPlanError(f"{PARTS}, and `{node.name}` changes variables by example", node.name)
        is_drawn = is_kind(node.op, Kind.RANDOM) and node.name in analysis.scalings
        if is_drawn and way.is_whole:
            raise NoPlanError(f"{PARTS}, and `{node.name}` draws random numbers that no counter gives", node.name)

    def _inputs(self, node: Any, way: Way) -> list[str]:
        """The inputs of a node that is computed in one of its ways."""
        given = data_inputs(node)
        for k, tensor in enumerate(given):
            if k in way.lengths:
                is_scalar = self._plan.shapes.shape(tensor) == ()
                dtype = tensor_dtype(self._nodes, tensor)
                given[k] = self._numbers.lengths(way.lengths[k], dtype, is_scalar=is_scalar)
            elif not (way.passes and k):
                given[k] = self._as(tensor, way.inputs[k])
        return given

    def _take(self, name: str, inputs: Sequence[str]) -> None:
        node = self._nodes[name]
        if list(inputs) != data_inputs(node):
            self._editor.set_inputs(name, [*inputs, *_waits(node)])

    def _copied(self, node: Any, inputs: Sequence[str], name: str) -> str:
        return self._editor.clone(node, name, [*inputs, *_waits(node)], device=node.device)

    # Tensors in another form -----------------------------------------------------------------------------------------

    def _as(self, tensor: str, layout: Layout) -> str:
        """A tensor as groups have it in a layout."""
        tensor = normalize(tensor)
        if node_of(tensor) in self._plan.marks:
            return tensor
        if (tensor, layout) not in self._had:
            source = self._source(tensor, layout)
            self._had[tensor, layout] = self._brought(tensor, source, layout)
        return self._had[tensor, layout]

    def _source(self, tensor: str, layout: Layout) -> Layout | None:
        """The layout from which a tensor is brought to another one; None if it is computed in that."""
        tensor = normalize(tensor)
        if (tensor, layout) in self._had:
            return None
        exchanges = self._plan.exchanges.get(tensor, ())
        return next(exchange.source for exchange in exchanges if exchange.target == layout)

    def _brought(self, tensor: str, source: Layout | None, target: Layout) -> str:
        """A tensor that is computed in one layout, in another one."""
        if source == WHOLE and target == Partial():
            name, dtype = f"autodist/once/{tensor_label(tensor)}", tensor_dtype(self._nodes, tensor)
            return self._forms.weighted(name, self._as(tensor, WHOLE), "first", dtype)
        if isinstance(target, Cut):
            if source != WHOLE:
                self._had.setdefault((tensor, WHOLE), self._brought(tensor, source, WHOLE))
            return self._forms.rows_of(tensor, target, self._as(tensor, WHOLE))
        if target == WHOLE and isinstance(source, Partial):
            return self._forms.put_together(tensor, source, self._as(tensor, source))
        if target == WHOLE and isinstance(source, Cut):
            return self._forms.gathered(tensor, source, self._as(tensor, source))
        raise NoPlanError(f"{PARTS}, which can't be put together in `{tensor}`", node_of(tensor))


def _waits(node: Any) -> list[str]:
    return [tensor for tensor in node.input if tensor.startswith("^")]
