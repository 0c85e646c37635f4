"""Served parts: one group of replicas applies the update of a part for all groups, which then get its new value.

Each group computes with parts of its own. Groups send the gradient of a served part to the worker of one group. It adds
them up in the order of ranks, applies the update with slots that only it keeps, and sends the value to the workers of
the other groups that have the part. This is a synchronous parameter server (thesis 7.3.2), whose workers are groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.errors import StrategyError
from autodist.graph import GraphEditor, StepAnalysis, Variable, node_of
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._synchronizers import given_to
from autodist.kernels.servers import Streams
from autodist.strategies import Strategy, TileSynchronizer


@dataclass(frozen=True)
class _Part:
    """A part that this worker has, or whose update it applies.

    Attributes:
        number: Its number among all served parts of the step.
        variable: The part.
        handles: Handles of the part and of its slots.
        points: Where groups would meet for its gradients.
        server: The worker that applies its updates.
        others: The workers of other groups that have it, besides the server.
    """

    number: int
    variable: Variable
    handles: frozenset[str]
    points: tuple[SyncPoint, ...]
    server: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class ServedParts(Kernel):
    """Have gradients of served parts go to their servers, and new values come back.

    Attributes:
        strategy: Says which parts of tiled variables have a server among groups.
        step: Name of the compiled step, part of the streams' names.
    """

    name: ClassVar[str] = "served-parts"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS, Fact.KEPT})
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        parts = list(self._parts(graph)) if graph.layout.groups > 1 else []
        if not parts:
            return graph
        analysis = graph.analyze()
        _refuse_other_uses(graph, analysis, parts)
        own = [part for part in parts if graph.layout.rank in (part.server, *part.others)]
        return _Rewriting(graph, analysis, self.step).apply(own) if own else graph

    def _parts(self, graph: DistributedGraph) -> Iterator[_Part]:
        slots: dict[str, list[str]] = {}
        for variable in graph.variables:
            for owner in variable.owners:
                slots.setdefault(owner, []).append(variable.handle)
        for number, variable in enumerate(v for v in graph.variables if v.coupled):
            tile = given_to(TileSynchronizer, self.strategy, variable.name)
            if tile is None or tile.server is None:
                continue
            server, ranks = graph.layout.rank_of(tile.server), map(graph.layout.rank_of, tile.devices)
            points = tuple(point for point in graph.points if point.variable == variable.name)
            handles = frozenset((variable.handle, *slots.get(variable.name, ())))
            others = tuple(rank for rank in ranks if rank != server)
            yield _Part(number, variable, handles, points, server, others)


def _refuse_other_uses(graph: DistributedGraph, analysis: StepAnalysis, parts: Sequence[_Part]) -> None:
    """Refuse a step that needs what only a server has: the whole gradient of a part, or its new value.

    All workers refuse it, also those that serve no part.
    """
    sources: dict[str, _Part] = {}
    for part in parts:
        marks = [mark for gradient in part.variable.gradients for mark in gradient.tensors if mark in analysis.nodes]
        sources |= dict.fromkeys((*marks, *_late_reads(analysis, part)), part)
    behind = analysis.reached(sources)
    served = {part.variable.name for part in parts}
    sent = (node_of(tensor) for point in graph.points for tensor in point.given if point.variable not in served)
    ends = {*map(node_of, (*graph.outputs, *graph.local_outputs)), *sent, *graph.effects, *analysis.writes}
    for part in parts:
        bits = sum(1 << k for k, found in enumerate(sources.values()) if found is part)
        own = {name for name, write in analysis.writes.items() if part.handles.issuperset(write.handles)}
        changes = {name for name, write in analysis.writes.items() if not part.handles.isdisjoint(write.handles)}
        for name in sorted(ends - own):
            if name in changes or behind.get(name, 0) & bits:
                raise _refusal(graph, analysis, part, name, is_shared=name in changes)


def _refusal(
    graph: DistributedGraph, analysis: StepAnalysis, part: _Part, name: str, *, is_shared: bool
) -> StrategyError:
    """The error for a node that needs what only a part's server has."""
    whole = part.variable.whole
    handles = analysis.writes[name].handles if name in analysis.writes else ()
    others = [v.whole for v in graph.variables if v.handle in handles and v.handle not in part.handles]
    told = f"op `{name}` ({analysis.nodes[name].op}) needs its gradient or its new value besides"
    if others:
        told = f"the update of `{others[0]}` needs its gradient or its new value as well"
    if is_shared or others[:1] == [whole]:
        told = "each of its parts is updated by what others are too, as by a norm, or if all gradients are finite"
    return StrategyError(
        f"one group of replicas applies the updates of `{whole}` for all, but {told}",
        hint="have its gradients all-reduced between groups: leave out `served=True`, or in a plan file give "
        f"`{whole}` an `all_reduce` rule",
    )


def _late_reads(analysis: StepAnalysis, part: _Part) -> list[str]:
    """The reads of a part that come after one of its changes."""
    writes = [name for name, write in analysis.writes.items() if part.variable.handle in write.handles]
    after: set[str] = set(writes)
    for name in analysis.order:
        if name not in after and not after.isdisjoint(analysis.index.needs[name]):
            after.add(name)
    return [name for name, handles in analysis.reads.items() if part.variable.handle in handles and name in after]


class _Rewriting:
    """Rewrites one worker's graph for the parts that it has or serves."""

    def __init__(self, graph: DistributedGraph, analysis: StepAnalysis, step: str) -> None:
        self._graph = graph
        self._analysis = analysis
        self._step = step
        self._rank = graph.layout.rank
        self._editor: GraphEditor = graph.edit(graph.layout.main_device)
        self._inputs: dict[str, str] = {}
        self._effects: list[str] = []
        self._gone: set[str] = set()

    def apply(self, parts: Sequence[_Part]) -> DistributedGraph:
        """The graph in which this worker serves some parts, and is served others."""
        for part in parts:
            if part.server == self._rank:
                self._serve(part)
            else:
                self._be_served(part)
        self._editor.stop_waiting(self._gone)
        met = {point.name for part in parts for point in part.points}
        return self._graph.edited(
            self._editor,
            self._inputs,
            effects=(*(effect for effect in self._graph.effects if effect not in self._gone), *self._effects),
            points=tuple(point for point in self._graph.points if point.name not in met),
        )

    def _serve(self, part: _Part) -> None:
        """Add up the gradients of all groups, and send the value once it has changed."""
        ranks = sorted((self._rank, *part.others))
        for k, point in enumerate(part.points):
            own, gradients = list(dict.fromkeys(map(node_of, point.local))), self._gradients(part, k)
            sent: list[Sequence[str]] = []
            for rank in ranks:
                if rank == self._rank:
                    sent.append(point.local)
                    continue
                name = gradients.take(f"from_{rank}", f"take_from_{rank}", point.dtypes, rank, own)
                sent.append([f"{name}:{n}" for n in range(len(point.dtypes))])
            join = self._editor.sum if point.combine is Combine.SUM else self._editor.concat
            for n, synced in enumerate(point.synced):
                combined = f"{gradients.prefix}/combined_{n}"
                self._inputs[synced] = join(combined, [tensors[n] for tensors in sent], point.dtypes[n])
        values, dtype = self._values(part), part.variable.dtype
        changed = [f"^{name}" for name in self._changes(part)]
        name = f"{values.prefix}/value"
        value = self._editor.add("ReadVariableOp", name, [part.variable.handle, *changed], dtype=dtype)
        self._effects.append(values.broadcast("value", "send", [value], [dtype], (), part.others))

    def _be_served(self, part: _Part) -> None:
        """Send this group's gradient, and set the part to the value that comes, after the step has read it."""
        made: list[str] = []
        for k, point in enumerate(part.points):
            gradients, channel = self._gradients(part, k), f"from_{self._rank}"
            self._effects.append(gradients.put(channel, "give", point.local, point.dtypes, (), part.server))
            made += map(node_of, point.local)
        self._gone.update(self._changes(part))
        values, variable = self._values(part), part.variable
        received = values.take("value", "receive", [variable.dtype], part.server, list(dict.fromkeys(made)))
        late = set(_late_reads(self._analysis, part))
        reads = [name for name, handles in self._analysis.reads.items() if variable.handle in handles]
        waits = [f"^{name}" for name in reads if name not in late]
        given = [variable.handle, received, *waits]
        self._effects.append(
            self._editor.add("AssignVariableOp", f"{values.prefix}/assign", given, dtype=variable.dtype)
        )

    def _changes(self, part: _Part) -> list[str]:
        """The changes of a part and of its slots."""
        writes: Mapping[str, Any] = self._analysis.writes
        return [name for name, write in writes.items() if not part.handles.isdisjoint(write.handles)]

    def _gradients(self, part: _Part, number: int) -> Streams:
        prefix = f"autodist/served_part/{part.number}/gradient_{number}"
        return self._streams(prefix, f"{part.variable.name}/gradient_{number}")

    def _values(self, part: _Part) -> Streams:
        """The stream of new values: after gradients, and those first that the next step needs first."""
        readers = [name for name, handles in self._analysis.reads.items() if part.variable.handle in handles]
        depth = self._analysis.depth_of_use(readers) or 0
        return self._streams(f"autodist/served_part/{part.number}", f"{part.variable.name}/value", 1 + depth)

    def _streams(self, prefix: str, shared: str, priority: int = 0) -> Streams:
        main = self._graph.layout.main_device
        return Streams(self._editor, "", prefix, f"{self._step}/served_part/{shared}", main, priority)
