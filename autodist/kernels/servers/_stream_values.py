"""Stream values: what a server holds goes to all workers when a step begins, without being asked for.

TensorFlow fetches a value when a worker's part of the graph needs it: a request, and an answer of up to the whole
variable. Here the server's worker sends its values when its own step begins, those that the forward pass needs first at
the front, in small pieces (P3: Jayarajan et al., 2019; ByteScheduler: Peng et al., 2019); so the first layers compute
while the values of the last are on their way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.graph import StepAnalysis, Variable, data_inputs, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._place import runs_at_home, stays_at_home
from autodist.kernels._synchronizers import given_to
from autodist.kernels.servers._channels import BEFORE_GRADIENTS, Streams
from autodist.kernels.servers._stream_rows import CommonLookup, answer, ask, lookups_of
from autodist.kernels.servers._units import units_of
from autodist.strategies import Strategy, TileSynchronizer


@dataclass(frozen=True)
class StreamValues(Kernel):
    """Have workers get what they read at a step's begin by streams, where these carry gradients too.

    What every worker reads is what its gradients come from. For tables of which it looks up rows it gets these, if all
    workers have as many replicas. Loops and branches still ask the server for what they look up, as does what is read
    after an update within the step.

    Attributes:
        strategy: Says which variables are on servers, and whether there are streams.
        step: Name of the compiled step, part of the streams' names.
    """

    name: ClassVar[str] = "stream-values"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.BESIDE, Fact.PLACED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.STREAMED})
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        if graph.layout.world_size == 1 or not self.strategy.graph.has_streams:
            return graph
        owners = self._owners(graph)
        return _Rewriting(graph, owners, self.step).apply() if owners else graph

    def _owners(self, graph: DistributedGraph) -> dict[str, tuple[Variable, int]]:
        """By handle, the variables on servers without copies on the workers, each with the worker that serves it.

        Steps that train nothing ask for what they read: workers need not take them together.
        """
        units = units_of(graph, self.strategy)
        own = {name for unit in units for name in unit.members}
        parts = ((v.name, min(v.owners or v.coupled, default="")) for v in graph.variables)  # of tiles, and their slots
        own |= {name for name, owner in parts if given_to(TileSynchronizer, self.strategy, owner or None)}
        served = {
            name: graph.layout.rank_of(unit.destination)
            for unit in units
            if not unit.synchronizer.is_asynchronous
            for name in unit.variables
            if name not in unit.proxied
        }
        if any(variable.coupled for variable in graph.variables):
            # Variables of earlier steps, which this one reads.
            served |= {name: graph.layout.rank_of_tf(home) for name, home in graph.placement.items() if name not in own}
        return {v.handle: (v, served[v.name]) for v in graph.variables if v.name in served}


class _Rewriting:
    """Rewrites one worker's graph for all values and rows in one pass."""

    def __init__(self, graph: DistributedGraph, owners: Mapping[str, tuple[Variable, int]], step: str) -> None:
        self.graph = graph
        self.layout = graph.layout
        self.owners = owners
        self.step = step
        self.nodes = graph.edit(graph.layout.main_device)
        self.values: dict[str, str] = {}
        self.rows: dict[str, str] = {}
        self.read: dict[str, list[str]] = {}
        self.effects: list[str] = []
        self.outstanding_sends: dict[int, list[str]] = {}

    def apply(self) -> DistributedGraph:
        analysis = self.graph.analyze()
        needed = _computed_everywhere(analysis, self.graph.points)
        for number, need in enumerate(_needs(analysis, self.owners, needed)):
            self._value(f"autodist/values/{number}", need)
        if len({len(self.layout.copies(rank)) for rank in range(self.layout.world_size)}) == 1:
            tables = {handle: variable for handle, (variable, _) in self.owners.items()}
            for lookup in lookups_of(analysis, self.graph.points, tables, needed):
                self._rows(f"autodist/rows/{lookup.node.name}", lookup)
        self.nodes.redirect(self.values, stays_at_home, with_added=True)
        after = {f"^{lookup}": f"^{received}" for lookup, received in self.rows.items()}
        self.nodes.redirect(self.rows | after, with_added=True)
        for name, write in analysis.writes.items():
            self.nodes.wait_for(name, [read for handle in write.handles for read in self.read.get(handle, ())])
        outstanding_sends = {rank: tuple(sent) for rank, sent in self.outstanding_sends.items()}
        return self.graph.edited(
            self.nodes, effects=(*self.graph.effects, *self.effects), outstanding_sends=outstanding_sends
        )

    def _others(self, variable: Variable, rank: int) -> list[int]:
        """The workers that get a variable's value from one: each group has all parts of tiled variables."""
        readers = self.layout.members if self._is_of_group(variable) else range(self.layout.world_size)
        return [other for other in readers if other != rank]

    def _is_of_group(self, variable: Variable) -> bool:
        is_part = variable.piece is not None and variable.piece.tiled_for is not None
        return is_part and self.layout.groups > 1

    def _shared(self, variable: Variable, name: str) -> str:
        """The name of a stream, the same for all workers that take part in it, and for no others."""
        group = f"/group_{self.layout.group}" if self._is_of_group(variable) else ""
        return f"{self.step}/{name}{group}"

    def _value(self, prefix: str, need: _Need) -> None:
        variable, owner = self.owners[need.handle]
        shared = self._shared(variable, variable.name)
        stream = Streams(self.nodes, "", prefix, shared, self.layout.main_device, BEFORE_GRADIENTS + need.depth)
        if owner != self.layout.rank:
            received = stream.take("value", "receive", [variable.dtype], owner)
            value = stream.shaped(received, variable.dtype, variable.shape)
            self.values |= dict.fromkeys(need.reads, value)
            self.effects.append(received)  # even if no node needs it: each message must be received
            return
        value = self.nodes.add("ReadVariableOp", f"{prefix}/read", [need.handle], dtype=variable.dtype)
        self.effects.append(
            stream.broadcast("value", "send", [value], [variable.dtype], (), self._others(variable, owner))
        )
        self.read.setdefault(need.handle, []).append(value)

    def _rows(self, prefix: str, lookup: CommonLookup) -> None:
        variable, owner = self.owners[lookup.handle]
        shared = self._shared(variable, lookup.node.name)
        priority = BEFORE_GRADIENTS + lookup.depth
        stream = Streams(self.nodes, "", prefix, shared, self.layout.main_device, priority)
        if owner != self.layout.rank:
            asked, rows = ask(stream, lookup, self.layout.rank, owner)
            self.effects += asked, rows
            self.rows[lookup.node.name] = rows
            return
        for rank, (found, sent) in answer(self.nodes, stream, lookup, self._others(variable, owner)).items():
            self.read.setdefault(lookup.handle, []).append(found)
            self.effects.append(sent)
            self.outstanding_sends.setdefault(rank, []).append(sent)


@dataclass(frozen=True)
class _Need:
    """Values that all workers read whole of a variable, and how far from the step's begin they are needed."""

    handle: str
    reads: tuple[str, ...]
    depth: int


def _needs(analysis: StepAnalysis, handles: Container[str], needed: Container[str]) -> list[_Need]:
    """The same on all workers: what gradients and losses come from, before anything is synchronized."""
    reads: dict[str, list[str]] = {}
    taken: dict[str, list[str]] = {}
    for name, node in analysis.nodes.items():
        handle = node_of(node.input[0]) if node.op == "ReadVariableOp" and len(node.input) == 1 else ""
        if handle not in handles:
            continue
        takers = [t for t in analysis.consumers.get(name, ()) if t in needed and name in _taken(analysis.nodes[t])]
        if takers:
            reads.setdefault(handle, []).append(name)
            taken.setdefault(handle, []).extend(takers)
    depths = {handle: analysis.depth_of_use(takers, needed) or len(analysis.order) for handle, takers in taken.items()}
    return [_Need(handle, tuple(reads[handle]), depths[handle]) for handle in sorted(reads)]


def _computed_everywhere(analysis: StepAnalysis, points: Iterable[SyncPoint]) -> set[str]:
    every = list(points)
    ends = {name for point in every for name in point.synced}
    stack = [node_of(t) for point in every for tensors in (point.given, *point.parts) for t in tensors]
    found: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(source for source in analysis.sources[name] if source not in ends)
    return found


def _taken(node: Any) -> set[str]:
    """The nodes whose values a node takes on its own worker: lookups run where the variable lives."""
    inputs = data_inputs(node)
    return set(map(node_of, inputs[1:] if runs_at_home(node.op) else inputs))
