"""The plan of a step on replicas: how each tensor is shared, and what has to be exchanged for that.

In the order of the graph, every node gets the way that needs the fewest bytes, given how its inputs are shared. Then,
from the end, what is needed in which form: a value that every worker could compute whole, but of which only a
replica's rows are wanted, is computed from these rows alone.

The backward pass is a part of the graph like any other, so a gradient by something that was gathered is a sum of
parts, and one by a sum is known to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autodist.graph._graph_def import (
    ancestors,
    data_inputs,
    is_stateful,
    node_of,
    normalize,
    split_tensor,
    tensor_dtype,
    tensor_name,
)
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.analysis import StepAnalysis
from autodist.graph.layouts._base import (
    WHOLE,
    Cut,
    Layout,
    Multiple,
    Own,
    Partial,
    Stretch,
    Tile,
    Whole,
    is_scattered,
)
from autodist.graph.layouts._batch_plan import BatchPlan, Exchange, NoPlanError, asks_for_sizes
from autodist.graph.layouts._exchanged_so_far import ExchangedSoFar
from autodist.graph.layouts._looked_up import LookedUp
from autodist.graph.layouts._parts_before import PartsBefore
from autodist.graph.layouts._plan_costs import LATENCY_BYTES, PlanCosts
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._shapes_of import shapes_of
from autodist.graph.layouts._sums import PartialRegion
from autodist.graph.layouts._tiled_variables import TiledVariables
from autodist.graph.layouts._way import Way, whole_way
from autodist.graph.layouts._ways import Ways
from autodist.graph.operators import Kind, is_kind

BATCH_SIZE = 1024
"""Number of examples by which ways are compared and exchanges counted, if the step is for any number: workers whose
batches differ must plan alike."""
_OF_ROWS = frozenset({"values", "indices", "left", "right"})
_ALONE = frozenset({"variant", "resource"})


def plan_batch(
    graph: TrainingGraph, tiled: TiledVariables | None = None, shapes: StepShapes | None = None
) -> BatchPlan:
    """Plan how replicas share a step.

    Args:
        graph: The step.
        tiled: The variables and arguments of which each replica has a part; None for none.
        shapes: What is known of its sizes, if it is known already: :func:`shapes_of`.

    Raises:
        NoPlanError: There is something in it that can't be shared, sent, or computed whole.
    """
    tiled = tiled or TiledVariables()
    if tiled.inputs:
        return _Planner(graph, tiled, by_rows=False, shapes=shapes).plan()
    try:
        return _Planner(graph, tiled, by_rows=True, shapes=shapes).plan()
    except NoPlanError:
        return _Planner(graph, tiled, by_rows=False).plan()


class _Planner:
    """Plans a step.

    Args:
        graph: The step.
        tiled: The variables of which each replica has a part.
        by_rows: Whether replicas may run loops on their own rows: what such a loop keeps can't be put together.
        shapes: What is known of its sizes, if it is known already.
    """

    def __init__(
        self, graph: TrainingGraph, tiled: TiledVariables, *, by_rows: bool, shapes: StepShapes | None = None
    ) -> None:
        self.tiled = tiled
        self.analysis: StepAnalysis = graph.analysis
        self.nodes = self.analysis.nodes
        self.outputs = [output.tensor for output in graph.outputs]
        self.effects = graph.effects
        batch_size = graph.fixed_rows or tiled.examples or BATCH_SIZE
        self.shapes = shapes_of(graph, tiled, by_rows=by_rows) if shapes is None else shapes
        self._shape = self.shapes.shape
        self.ways = Ways(self.nodes, self.shapes, tiled.parts, repeats=bool(tiled.inputs))
        needed = ancestors(self.nodes, [*self.effects, *map(node_of, self.outputs)])
        self.order = tuple(name for name in self.analysis.order if name in needed)
        self.primary: dict[str, Way] = {}
        self.layouts: dict[str, Layout] = {}
        self.exchanged = ExchangedSoFar()
        self.costs = PlanCosts(self.analysis, tiled, self.shapes, self.ways, self.exchanged, batch_size, self._layout)
        self.wanted: dict[str, dict[int, dict[Layout, None]]] = {}
        self.marks: dict[str, Layout] = {}
        self.looked_up = LookedUp()
        self.put_together: set[str] = set()  # sums that are put together at once: all their readers take them whole
        self.parts_before = PartsBefore(
            self.nodes, self.ways, self.primary, self.layouts, self.costs.bytes, tiled.meetings
        )

    def plan(self) -> BatchPlan:
        """Choose the way of each node, then find in which forms its outputs are needed."""
        for name in self.order:
            self._choose(self.nodes[name])
        self._put_together_once()
        self._settle_gradients()
        ways: dict[str, tuple[Way, ...]] = {}
        exchanges: dict[str, tuple[Exchange, ...]] = {}
        self._want(self.outputs, [WHOLE] * len(self.outputs))
        for effect in self.effects:
            self.wanted.setdefault(effect, {}).setdefault(0, {})[self.primary[effect].outputs[0]] = None
        for name in reversed(self.order):
            if name in self.wanted:
                ways[name], found = self._needed(self.nodes[name])
                for exchange in found:
                    exchanges[exchange.tensor] = (*exchanges.get(exchange.tensor, ()), exchange)
        order = tuple(name for name in self.order if name in ways)
        dtypes = {tensor: tensor_dtype(self.nodes, tensor) for tensor in exchanges}
        inputs = {name: tuple(map(normalize, self._inputs(self.nodes[name]))) for name in order}
        # Of a gradient that is asked for its shape only, nothing is computed.
        met = {self.analysis.marks[name].gradient for name in self.marks.keys() & ways.keys()}
        marks = {name: layout for name, layout in self.marks.items() if self.analysis.marks[name].gradient in met}
        return BatchPlan(self.shapes, order, ways, exchanges, self.layouts, marks, dtypes, inputs, self.tiled)

    # Forward: the way of each node -----------------------------------------------------------------------------------

    def _choose(self, node: Any) -> None:
        count = self.ways.outputs_of(node)
        if node.name in self.analysis.split:
            way = Way((), (Cut(0),))
        elif node.name in self.tiled.inputs:
            way = Way((), self.tiled.inputs[node.name][:1])
        elif node.name in self.tiled.reads:
            way = replace(whole_way(node, 1), outputs=(self.tiled.reads[node.name],), takes_own=True)
        elif node.name in self.analysis.marks or node.name in self.tiled.meetings or node.name in self.tiled.own:
            way = whole_way(node, count)
        else:
            way = self._cheapest(node, count)
        self.primary[node.name] = way
        self.looked_up.note(node.name, way)
        for k, layout in enumerate(way.outputs):
            self.layouts[tensor_name(node.name, k)] = layout
        if not (node.name in self.analysis.marks or node.name in self.tiled.slices or self._is_asked(node)):
            for tensor, to in zip(data_inputs(node), way.inputs, strict=False):
                if (had := self._layout(tensor)) != to:
                    self.exchanged.add_all(self.costs.sent_for(tensor, had, to))

    def _cheapest(self, node: Any, count: int) -> Way:
        tensors = data_inputs(node)
        layouts = [self._layout(tensor) for tensor in tensors]
        whole = whole_way(node, count)
        if all(isinstance(layout, Whole) for layout in layouts) or self._is_asked(node):
            return whole
        if _is_done_once(node):
            return whole
        ways = (way for had in self._had(tensors, layouts) for way in self.ways.by_inputs(node, had))
        found = [whole, *(way for way in ways if self.looked_up.allows(way, tensors))]
        costs = [self.costs.of(node, way, layouts, tensors) for way in found]
        return found[costs.index(min(costs))]

    def _had(self, tensors: Sequence[str], layouts: list[Layout]) -> Iterator[list[Layout]]:
        """The layouts in which replicas have some tensors, or have them once they were exchanged for other nodes.

        Arguments may be cut in several ways, and sums by rows.
        """
        yield layouts
        for k, tensor in enumerate(tensors):
            given: tuple[Layout, ...] = self.tiled.inputs.get(node_of(tensor), ())[1:]
            parts = (to for to in self.exchanged.of(tensor) if isinstance(to, Tile))
            for other in (*given, *parts, *self.looked_up.by_rows(tensor, layouts[k], self._shape(tensor))):
                yield [*layouts[:k], other, *layouts[k + 1 :]]

    def _inputs(self, node: Any) -> list[str]:
        """The inputs that are needed to compute a node."""
        return [] if self._is_asked(node) else data_inputs(node)

    def _is_asked(self, node: Any) -> bool:
        """Whether a node asks for sizes that are known without its input."""
        return asks_for_sizes(self.shapes, node, self.ways.outputs_of(node))

    def _put_together_once(self) -> None:
        """Put parts together where that takes fewer bytes than all that is made of them; see `_sums.py`."""
        region = self._region(lambda layout: layout == Partial())
        self._put_together(region.worth(lambda tensor: self.costs.times_sent(tensor, WHOLE)))
        if self.tiled.inputs:
            region = self._region(lambda layout: isinstance(layout, Tile))
            self._put_together(
                region.best(lambda tensor: self.costs.bytes(tensor) + LATENCY_BYTES, self.costs.of_computing_whole)
            )

    def _region(self, has_parts: Callable[[Layout], bool]) -> PartialRegion:
        """The tensors that replicas have as such parts, with the bytes that the present plan sends to join them."""
        wanted = [*self.exchanged, *((tensor, WHOLE) for tensor in self.outputs)]
        cut = [(t, to) for t, to in wanted if has_parts(self._layout(t))]
        region = PartialRegion({normalize(t): self.costs.once(t, self._layout(t), to) for t, to in cut})
        for name in self.order:
            way = self.primary[name]
            if name not in self.analysis.marks and any(map(has_parts, way.inputs)):
                taken = zip(self._inputs(self.nodes[name]), way.inputs, strict=False)
                parts = [normalize(t) for t, to in taken if has_parts(to) and to == self._layout(t)]
                region.add(parts, (tensor_name(name, k) for k, to in enumerate(way.outputs) if has_parts(to)))
        return region

    def _put_together(self, found: Mapping[str, list[str]]) -> None:
        self.put_together.update(found)
        changed = {tensor for members in found.values() for tensor in members}
        self.exchanged.forget(changed)
        for tensor in found:
            self.exchanged.add(tensor, WHOLE)
        self._choose_again(set(found))

    def _choose_again(self, changed: set[str]) -> None:
        """Choose the ways of all that takes tensors whose layouts have changed."""
        for name in self.order if changed else ():
            node = self.nodes[name]
            if name in self.analysis.marks or changed.isdisjoint(map(normalize, data_inputs(node))):
                continue
            before = self.primary[name].outputs
            self._choose(node)
            pairs = zip(before, self.primary[name].outputs, strict=True)
            changed.update(tensor_name(name, k) for k, (old, new) in enumerate(pairs) if old != new)

    def _settle_gradients(self) -> None:
        """Decide how replicas have the gradients of variables when they meet: parts of a sum, or rows of each."""
        groups: dict[int, list[str]] = {}
        for name in self.order:
            mark = self.analysis.marks.get(name)
            if name in self.tiled.gradients:
                self.marks[name] = self.tiled.gradients[name].layout
            elif mark is not None:
                groups.setdefault(mark.gradient, []).append(name)
        for marks in groups.values():
            varying = [
                m for m in marks if self.tiled.inputs or node_of(self.nodes[m].input[0]) in self.analysis.scalings
            ]
            parts = [m for m in varying if self.analysis.marks[m].part == "dense"]
            rows = [m for m in marks if self.analysis.marks[m].part in _OF_ROWS] if varying else []
            cut = self._cut_of(rows) if rows else None
            self.marks.update((mark, self._dense(mark)) for mark in parts)
            self.marks.update(dict.fromkeys(rows, cut or WHOLE))
        for name in self.marks:
            self.primary[name] = Way((self.marks[name],), (WHOLE,))

    def _dense(self, mark: str) -> Layout:
        """How replicas have a dense gradient when they meet; next to tiled variables it may be whole already."""
        source = self._layout(self.nodes[mark].input[0])
        return WHOLE if self.tiled.parts and isinstance(source, Whole | Tile) else Partial()

    def _cut_of(self, marks: Sequence[str]) -> Cut | None:
        """How the rows of a sparse gradient are cut; None if their number is fixed, or is one that data say."""
        tensors = [self.nodes[mark].input[0] for mark in marks]
        layouts = (self._layout(tensor) for tensor in tensors)
        found = next((layout for layout in layouts if isinstance(layout, Cut) and layout.dim == 0), None)
        shapes = [self._shape(tensor) for tensor in tensors]
        length = next((shape[0] for shape in shapes if shape and shape[0] is not None), None)
        return found or (Cut(0, 1, length.times) if isinstance(length, Multiple) else None)

    def _layout(self, tensor: str) -> Layout:
        tensor = normalize(tensor)
        return WHOLE if tensor in self.put_together else self.layouts.get(tensor, WHOLE)

    # Backward: what is needed ----------------------------------------------------------------------------------------

    def _want(self, tensors: Iterable[str], layouts: Iterable[Layout]) -> None:
        for tensor, layout in zip(tensors, layouts, strict=True):
            name, index = split_tensor(tensor)
            self.wanted.setdefault(name, {}).setdefault(index, {})[layout] = None

    def _needed(self, node: Any) -> tuple[tuple[Way, ...], list[Exchange]]:
        """The ways in which a node has to be computed, and the exchanges of its outputs."""
        if node.name in self.tiled.inputs:
            return self._needed_argument(node.name)
        primary, wanted = self.primary[node.name], self.wanted[node.name]
        others = [(k, to) for k, found in wanted.items() for to in found if to != primary.outputs[k]]
        uses_primary = any(primary.outputs[k] in found for k, found in wanted.items())
        ways: dict[Way, None] = {}
        exchanges: list[Exchange] = []
        for index, target in others:
            way = None if uses_primary or not primary.is_whole else self._of_rows(node, index, target)
            way = way or (self.parts_before.way(node.name) if target == Partial() else None)
            tensor, source = tensor_name(node.name, index), primary.outputs[index]
            if way is None and WHOLE not in wanted[index]:
                way = self.costs.way_again(tensor, source, target)
            if way is not None:
                ways[way] = None
                continue
            exchanges.extend(self._steps(tensor, source, target, wanted[index]))
            uses_primary = True
        if uses_primary or not ways:
            ways = {primary: None, **ways}
        for way in ways:
            self._want_inputs(node, way)
        exchanges.sort(key=lambda exchange: not isinstance(exchange.target, Whole))
        return tuple(ways), exchanges

    def _needed_argument(self, name: str) -> tuple[tuple[Way, ...], list[Exchange]]:
        """The parts of an argument that replicas are given, and the exchanges of these."""
        given, wanted = self.tiled.inputs[name], self.wanted[name][0]
        others = [to for to in wanted if to not in given]
        kept = [tile for tile in given if tile in wanted or (others and tile == given[0])]
        exchanges = [one for to in others for one in self._steps(name, given[0], to, wanted)]
        exchanges.sort(key=lambda exchange: not isinstance(exchange.target, Whole))
        return tuple(Way((), (tile,)) for tile in kept), exchanges

    def _steps(self, tensor: str, source: Layout, target: Layout, wanted: dict[Layout, None]) -> Iterator[Exchange]:
        """The exchanges that bring a tensor from one layout to another, perhaps by the whole tensor."""
        is_padded = isinstance(source, Tile) and source.outer == 1 and target == Partial() and WHOLE not in wanted
        is_near = isinstance(target, Stretch) and source == Tile(target.dim)
        is_sent = (
            is_near
            or self.costs.goes_all_to_all(tensor, source, target)
            or (source == Partial() and is_scattered(target))
        )
        if isinstance(source, Whole) or isinstance(target, Whole) or is_padded or (is_sent and WHOLE not in wanted):
            yield self._exchange(tensor, source, target)
        else:
            if WHOLE not in wanted:
                wanted[WHOLE] = None
                yield self._exchange(tensor, source, WHOLE)
            yield self._exchange(tensor, WHOLE, target)

    def _want_inputs(self, node: Any, way: Way) -> None:
        if self._is_asked(node):
            return
        tensors = data_inputs(node)
        own = self.tiled.gradients.get(node.name)
        if own is not None:
            self._want([own.source], [own.layout])
            return
        if way.passes:
            self._want(tensors[:1], way.inputs[:1])
            return
        kept = [k for k in range(len(tensors)) if k not in way.lengths]
        self._want([tensors[k] for k in kept], [way.inputs[k] for k in kept])
        for tensor in node.input:
            if tensor.startswith("^"):
                name = node_of(tensor)
                self.wanted.setdefault(name, {}).setdefault(0, {})[self.primary[name].outputs[0]] = None

    def _of_rows(self, node: Any, index: int, target: Layout) -> Way | None:
        """A way that computes only a replica's rows or tile of a node that each worker could compute whole."""
        if _is_done_once(node) or node.name in self.tiled.meetings:
            return None
        if is_kind(node.op, Kind.SOURCE) or node.name in self.analysis.marks:
            return None
        way = self.ways.by_output(node, index, target)
        if way is None:
            return None
        fits = all(
            isinstance(self._layout(t), Whole) or self._layout(t) == to or isinstance(to, Whole)
            for t, to in zip(data_inputs(node), way.inputs, strict=True)
        )
        return way if fits else None

    def _exchange(self, tensor: str, source: Layout, target: Layout) -> Exchange:
        is_alone = tensor_dtype(self.nodes, tensor) in _ALONE and not isinstance(source, Whole)
        if is_alone or isinstance(target, Own):
            name = node_of(tensor)
            raise NoPlanError(f"values that can't be sent, of `{tensor}` ({self.nodes[name].op})", name)
        return Exchange(tensor, source, target)


def _is_done_once(node: Any) -> bool:
    """Whether a node does something besides computing, which must happen once; loops are looked into."""
    return is_stateful(node.op) and not is_kind(node.op, Kind.LOOKUP, Kind.FLOW, Kind.LIST)
