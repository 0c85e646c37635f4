"""The replicas' exchanges in a step if some of its variables were tiled, before anything is rewritten."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from autodist.garbage import garbage_waits
from autodist.graph._graph_def import data_inputs, node_of, normalize, output_shape, split_tensor
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.layouts._base import Tile, Whole
from autodist.graph.layouts._batch_plan import BatchPlan, NoPlanError
from autodist.graph.layouts._exchanged import Exchanged, exchanged_in
from autodist.graph.layouts._made_of_others import can_be_made_of_others, made_of_others, with_reads
from autodist.graph.layouts._plan import BATCH_SIZE, plan_batch
from autodist.graph.layouts._plan_costs import LATENCY_BYTES
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._shapes_of import shapes_of
from autodist.graph.layouts._tiled_variables import TiledVariables

_Wanted: TypeAlias = "tuple[tuple[tuple[str, int], ...], int, int]"
_MOST_TURNS = 4


def tile_exchanges(
    graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int
) -> tuple[Exchanged, ...] | None:
    """The replicas' exchanges in a step with tiled variables, the largest first.

    It is what :func:`~autodist.graph.layouts.exchanged_in` finds after the variables have been cut.

    Args:
        graph: G, with its GraphDef; its variables are whole.
        dims: By variable that is tiled, the dim that is cut.
        parts: How many replicas there are.
        examples: For how many examples.

    Returns:
        None if replicas can't share such a step.
    """
    found = _kept(graph).of(graph, dims, parts, examples)
    return None if found is None else found.exchanged


def exchanges_of_groups(graph: TrainingGraph, examples: int) -> tuple[Exchanged, ...] | None:
    """The exchanges of groups of replicas in a step before they have gradients, the largest first.

    A group shares the step as one replica does: this is what replicas without tiles would exchange, such as the sums of
    batch normalization.

    Args:
        graph: G, with its GraphDef; its variables are whole.
        examples: For how many examples of all groups.

    Returns:
        None if they can't share such a step.
    """
    return _kept(graph).of_groups(graph, examples)


def computed_whole(graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int) -> frozenset[str]:
    """The nodes of the batch that each replica of a step with tiled variables computes for all examples.

    Where the mark of a gradient is among them, each replica has that gradient already.

    Args:
        graph: G, with its GraphDef; its variables are whole.
        dims: By variable that is tiled, the dim that is cut.
        parts: How many replicas there are.
        examples: For how many examples.
    """
    found = _kept(graph).of(graph, dims, parts, examples)
    return frozenset() if found is None else found.whole


def step_for_tiles(graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int) -> TrainingGraph:
    """The step whose variables can be tiled: operators that would need to gather tiles are replaced.

    Rows are looked up in what is read of a variable, of which replicas have parts, not by its handle. A softmax of
    classes that replicas share is replaced by operators of which each replica does a part, if they then send less.

    Args:
        graph: G, with its GraphDef; its variables are whole.
        dims: By variable that is to be tiled, the dim that is cut.
        parts: How many replicas there are.
        examples: For how many examples; 0 for any.
    """
    found = _kept(graph).of(graph, dims, parts, examples)
    step = with_reads(graph, [graph.variable(name).handle for name in dims])
    return step if found is None else made_of_others(step, found.made)


@dataclass(frozen=True)
class _Planned:
    """Exchanges of a step in which some nodes are replaced by others, and the work that each replica does whole."""

    made: frozenset[str]
    exchanged: tuple[Exchanged, ...]
    whole: frozenset[str]

    def cost(self, parts: int) -> float:
        """The cost of that, as plans count it."""
        return sum(one.sent_bytes(parts) + LATENCY_BYTES for one in self.exchanged)


class _Planning:
    """Plans that were asked for before: one takes seconds for a large step, and costs are needed often."""

    def __init__(self) -> None:
        self._found: dict[_Wanted, _Planned | None] = {}
        self._of_groups: dict[int, tuple[Exchanged, ...] | None] = {}
        self._steps: dict[frozenset[str], TrainingGraph] = {}
        self._shapes: dict[frozenset[str], StepShapes] = {}

    def of_groups(self, graph: TrainingGraph, examples: int) -> tuple[Exchanged, ...] | None:
        """See :func:`exchanges_of_groups`."""
        if examples not in self._of_groups:
            try:
                plan = plan_batch(_without_updates(graph))
                self._of_groups[examples] = exchanged_in(graph.with_batch_size(examples), plan)
            except NoPlanError:
                self._of_groups[examples] = None
        return self._of_groups[examples]

    def of(self, graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int) -> _Planned | None:
        """See :func:`tile_exchanges`."""
        wanted = tuple(sorted(dims.items())), parts, examples
        if wanted not in self._found:
            self._found[wanted] = self._best(graph, dims, parts, examples)
        return self._found[wanted]

    @garbage_waits()
    def _best(self, graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int) -> _Planned | None:
        """The plan that costs least, among those in which ever more nodes are replaced."""
        best, made = None, frozenset[str]()
        for _ in range(_MOST_TURNS):
            try:
                step, plan = self._planned(graph, dims, parts, examples, made)
            except NoPlanError:
                return best
            exchanged = exchanged_in(step.with_batch_size(examples or BATCH_SIZE), plan)
            found = _Planned(made, exchanged, frozenset(_computed_whole(step, plan)))
            if best is None or found.cost(parts) < best.cost(parts):
                best = found
            more = made | frozenset(_gathering(step, plan))
            if more == made:
                return best
            made = more
        return best

    def _planned(
        self, graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int, made: frozenset[str]
    ) -> tuple[TrainingGraph, BatchPlan]:
        if made not in self._steps:
            read = with_reads(graph, [variable.handle for variable in graph.variables])
            self._steps[made] = _without_updates(made_of_others(read, made))
        step = self._steps[made]
        tiled = TiledVariables.planned(step, dims, parts, examples)
        if made not in self._shapes:
            with contextlib.suppress(NoPlanError):  # the sizes of some loops are not known; the plan avoids these
                self._shapes[made] = shapes_of(step, tiled, by_rows=True)
        return step, plan_batch(step, tiled, self._shapes.get(made))


def _kept(graph: TrainingGraph) -> _Planning:
    found: _Planning = graph.analysis.derived.setdefault(_Planning, _Planning())
    return found


def _computed_whole(step: TrainingGraph, plan: BatchPlan) -> Iterator[str]:
    for name, ways in plan.ways.items():
        if name not in plan.marks and name in step.analysis.scalings and all(way.is_whole for way in ways):
            yield name
    yield from (mark for mark, layout in plan.marks.items() if isinstance(layout, Whole))


def _gathering(step: TrainingGraph, plan: BatchPlan) -> Iterator[str]:
    """The nodes for which a tiled tensor is gathered, and that can be replaced by others."""
    nodes = step.analysis.nodes
    for name in can_be_made_of_others(step):
        (first, *_) = data_inputs(nodes[name])
        layout = plan.layouts.get(normalize(first))
        is_gathered = any(way.inputs[0] != layout for way in plan.ways.get(name, ()))
        if isinstance(layout, Tile) and is_gathered and not _may_be_one(step, plan, first):
            yield name


def _may_be_one(step: TrainingGraph, plan: BatchPlan, tensor: str) -> bool:
    """Whether a last dim that the graph leaves open may have length 1; see `cross_entropy`."""
    name, index = split_tensor(tensor)
    lengths = (
        (output_shape(step.analysis.nodes[name], index) or (None,))[-1],
        (plan.shapes.shape(tensor) or (None,))[-1],
    )
    return lengths[0] is None and lengths[1] in (None, 1)


def _without_updates(graph: TrainingGraph) -> TrainingGraph:
    """The step up to its gradients: each replica updates its own parts, and exchanges nothing for that."""
    analysis = graph.analysis
    updates = set(analysis.marks)
    for name in analysis.order:
        if any(node_of(tensor) in updates for tensor in data_inputs(analysis.nodes[name])):
            updates.add(name)
    kept = (effect for effect in graph.effects if effect not in updates and effect not in analysis.writes)
    step = replace(graph, effects=(*kept, *analysis.marks))
    step.__dict__["analysis"] = analysis  # of the same nodes
    return step
