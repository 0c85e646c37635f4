"""The plan of a session: a pure function of its steps so far, of a new one, its strategy, the cluster and the rank.

Nothing happens while it is planned, so a step that can't be planned leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from autodist.errors import StrategyError
from autodist.graph import CapturedStep, StepAnalysis, TrainingGraph, node_of
from autodist.kernels import DistributedGraph, Layout, Length, for_any_length, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.runtime.state import Placements
from autodist.strategies import Strategy, needs_servers

Observer: TypeAlias = Callable[[str, DistributedGraph], None]
_Prepared: TypeAlias = tuple[TrainingGraph, Strategy]


@dataclass(frozen=True)
class Setting:
    """The common settings of a session's steps.

    Attributes:
        spec: The cluster.
        rank: This worker.
        container: Resource container of the variables.
        gradient_reduction: What a loss means.
        overlap: Whether gradients leave as soon as they exist.
        updates_in_turn: Whether updates of variables wait for each other, since memory is short.
        observe: By a step's name, what sees its graph after each kernel, if anything does.
    """

    spec: ResourceSpec
    rank: int
    container: str
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto"
    overlap: bool = True
    updates_in_turn: bool = False
    observe: Callable[[str], Observer | None] = lambda _: None


@dataclass(frozen=True)
class PlannedStep:
    """A step as this worker will run it.

    Attributes:
        captured: The step as traced.
        strategy: The strategy by which it runs.
        training: The step in the parts that the strategy makes.
        prepared: The strategy in terms of these.
        graph: The step as rewritten for this worker.
        written: The variables that it changes.
        prefix: Its name in the session.
        others: `training` and `prepared` for the other lengths for which it was traced.
        revision: How often it was rewritten again because later steps have moved variables.
    """

    captured: CapturedStep
    strategy: Strategy
    training: TrainingGraph
    prepared: Strategy
    graph: DistributedGraph
    written: tuple[str, ...]
    prefix: str
    others: tuple[_Prepared, ...] = ()
    revision: int = 0

    @property
    def name(self) -> str:
        """Its name in the session, which differs from revision to revision."""
        return f"{self.prefix}_{self.revision}" if self.revision else self.prefix


@dataclass(frozen=True)
class SessionPlan:
    """The contents of a session, and the newest step's changes of them.

    Attributes:
        steps: In the order in which they came; those that must be rewritten for the newest one are so already.
        placements: Where variables live.
        moved: Variables of earlier steps that the newest gives to a server.
        recut: The program's variables of earlier steps that the newest has in other parts.
        connects: Whether the session, which has done without TensorFlow's servers, has them from now on.
    """

    steps: tuple[PlannedStep, ...] = ()
    placements: Placements = field(default_factory=Placements)
    moved: tuple[str, ...] = ()
    recut: tuple[str, ...] = ()
    connects: bool = False

    @property
    def has_servers(self) -> bool:
        """Whether workers see each other's devices through TensorFlow servers."""
        return any(step.graph.layout.server for step in self.steps)

    @property
    def wholes(self) -> dict[str, str]:
        """By variable of the session, the program's variable that it is, or is a part of."""
        return {v.name: v.whole for step in self.steps for v in step.training.variables}

    @property
    def written(self) -> set[str]:
        """The program's variables that a step changes, or changes a part of."""
        wholes = self.wholes
        return {wholes[name] for step in self.steps for name in step.written}


def plan_step(
    before: SessionPlan, captured: CapturedStep, strategy: Strategy, prefix: str, setting: Setting
) -> SessionPlan:
    """Plan a step alongside those that a session runs.

    Args:
        before: What the session runs.
        captured: The step.
        strategy: The same on all workers.
        prefix: The step's name in the session, unlike any other of the process.
        setting: What all steps have in common.

    Raises:
        StrategyError: The strategy does not fit the step, or the steps before it.
    """
    with_parts = before.placements.with_known_parts(strategy, captured.graph)
    variants = _prepared(captured, with_parts)
    training, prepared = variants[0]
    written = tuple(written_by(training))
    if setting.spec.world_size > 1:
        before.placements.check(prepared, training, written)
    layout = replace(_layout(before, strategy, setting), groups=with_parts.groups_of_replicas)
    graph = _rewritten(variants, _lengths(captured), layout, prefix, before.placements, setting)
    step = PlannedStep(captured, strategy, training, prepared, graph, written, prefix, tuple(variants[1:]))
    known, placements = before.wholes, before.placements.after(strategy, captured.graph, prepared, training)
    moved = [name for name in before.placements.newly_served(prepared, training) if name in known]
    recut = [name for name in _wholes_in_new_parts(training, known) if name in known.values()]
    if setting.spec.world_size > 1:
        _check_unwritten(before, moved, recut)
    connects = layout.server and bool(before.steps) and not before.has_servers
    others = {*moved, *(name for name, whole in known.items() if whole in recut)}
    earlier = [
        _again(one, placements, is_recut=bool(recut), server=layout.server, setting=setting)
        if connects or not others.isdisjoint(v.name for v in one.training.variables)
        else one
        for one in before.steps
    ]
    return SessionPlan((*earlier, step), placements, tuple(moved), tuple(recut), connects)


def _layout(before: SessionPlan, strategy: Strategy, setting: Setting) -> Layout:
    server = setting.spec.world_size > 1 and needs_servers(strategy)
    if before.steps and (before.has_servers or not strategy.variables):
        server = before.has_servers  # without variables of its own a step reads them wherever they are
    return Layout.of(strategy, setting.spec, setting.rank, server=server)


def _prepared(captured: CapturedStep, strategy: Strategy) -> list[_Prepared]:
    """The parts that a strategy makes of a step, for each of the lengths for which it was traced."""
    others = () if captured.lengths is None else captured.lengths.graphs
    return [prepare(graph, strategy) for graph in (captured.graph, *others)]


def _lengths(captured: CapturedStep) -> list[Length]:
    """The lengths for which a step was traced; none if it was for shapes."""
    if captured.lengths is None:
        return []
    inputs = [graph.inputs for graph in (captured.graph, *captured.lengths.graphs)]
    found = []
    for dims in captured.lengths.dims:
        argument, dim = dims[0]
        sizes = [(given[argument].shape or ())[dim] or 0 for given in inputs]
        found.append(Length(tuple(sizes), tuple((node_of(inputs[0][a].tensor), d) for a, d in dims)))
    return found


def _rewritten(
    variants: Sequence[_Prepared],
    lengths: Sequence[Length],
    layout: Layout,
    name: str,
    placements: Placements,
    setting: Setting,
) -> DistributedGraph:
    first = _rewritten_for(*variants[0], layout, name, placements, setting, setting.observe(name))
    if len(variants) == 1:
        return first
    others = [_rewritten_for(*one, layout, name, placements, setting, None) for one in variants[1:]]
    return for_any_length([first, *others], lengths)


def _rewritten_for(
    training: TrainingGraph,
    prepared: Strategy,
    layout: Layout,
    name: str,
    placements: Placements,
    setting: Setting,
    observer: Observer | None,
) -> DistributedGraph:
    kernels = kernels_for(
        training,
        prepared,
        step=name,
        container=setting.container,
        gradient_reduction=setting.gradient_reduction,
        overlap=setting.overlap,
        placement=placements.known((v.name for v in training.variables), layout),
        updates_in_turn=setting.updates_in_turn,
    )
    if observer is not None:
        observer("prepared", DistributedGraph.of(training, layout))
    return rewrite(training, layout, kernels, observer)[0]


def _again(step: PlannedStep, placements: Placements, *, is_recut: bool, server: bool, setting: Setting) -> PlannedStep:
    """An earlier step, which reads variables where they are now, and in the parts that they are in now."""
    layout = replace(step.graph.layout, server=server)
    if is_recut:
        graph = step.captured.graph
        with_parts = placements.with_known_parts(step.strategy, graph)
        (training, prepared), *others = _prepared(step.captured, with_parts)
        written = tuple(written_by(training))
        step = replace(step, training=training, prepared=prepared, written=written, others=tuple(others))
        layout = replace(layout, groups=with_parts.groups_of_replicas)
    step = replace(step, revision=step.revision + 1)
    variants = ((step.training, step.prepared), *step.others)
    lengths = _lengths(step.captured)
    return replace(step, graph=_rewritten(variants, lengths, layout, step.name, placements, setting))


def _wholes_in_new_parts(training: TrainingGraph, known: dict[str, str]) -> Iterable[str]:
    return dict.fromkeys(v.whole for v in training.variables if v.name not in known)


def _check_unwritten(before: SessionPlan, moved: Iterable[str], recut: Iterable[str]) -> None:
    """Check that no earlier step changes its own copies of variables that the new step has elsewhere.

    Raises:
        StrategyError: One does.
    """
    wholes, written = before.wholes, before.written
    told = [(name, "trains it at a server") for name in moved] + [(name, "trains it in parts") for name in recut]
    for name, now in told:
        if wholes.get(name) in written:
            raise StrategyError(
                f"an earlier step changes its own copy of `{name}` on every worker, this one {now}",
                hint="call first the step that trains it, or use AllReduce",
            )


def written_by(graph: TrainingGraph) -> list[str]:
    """Names of the variables that a step changes."""
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], ())
    handles = {handle for write in analysis.writes.values() for handle in write.handles}
    return [v.name for v in graph.variables if v.handle in handles]
