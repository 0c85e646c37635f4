"""Asynchronous parameter servers, without a bound or with a bounded staleness K (thesis 7.3.2, bridging models).

The update leaves the owner's step, so that no worker's step waits for another's gradient. Every worker, the owner's
too, pushes a message per unit: its gradients, and the few values that the update takes from a step besides. The owner's
process applies messages in rounds of their own (:class:`Serving`), alongside its steps:

* no bound: a round is one message, first come, first served;
* staleness K: a round is one message of every worker. Then each worker gets a token; it has K in advance, and takes one
  at the end of each step. So step t begins when update t - 1 - K is applied, and no worker is more than K steps ahead.

What every worker pushes is weighted by its share of the batch, as in synchronous training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import data_inputs, node_of, normalize, tensor_dtype
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, Serving, SyncPoint
from autodist.kernels._update_regions import UnitRegion, UnitRegions
from autodist.kernels.servers._channels import Queues
from autodist.kernels.servers._proxies import ProxyWriter
from autodist.kernels.servers._units import GradientPart, ServedUnit, parts_of, units_of
from autodist.strategies import PSSynchronizer, Strategy, Synchronizer

MOST_AHEAD = 4
"""How many messages of one sender an asynchronous server keeps waiting; a worker that is faster waits in its step."""

_NOTE = (
    "servers apply updates without waiting for all workers in each step (`sync`, `staleness`), so weights differ from "
    "those of one device, and from run to run; leave out both to have the same"
)


@dataclass(frozen=True)
class AsynchronousServers(Kernel):
    """Move the variables whose servers are asynchronous or stale, with their slots, to their destinations.

    Attributes:
        strategy: Says which variables, and where to.
        step: Name of the compiled step, part of the queues' names.
        container: Resource container of the variables.
    """

    name: ClassVar[str] = "asynchronous-servers"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.MESSAGES, Fact.PLACED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.BESIDE})
    synchronizer: ClassVar[type[Synchronizer]] = PSSynchronizer
    strategy: Strategy
    step: str
    container: str = ""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        units = [unit for unit in units_of(graph, self.strategy) if unit.synchronizer.is_asynchronous]
        if not units or graph.layout.world_size == 1:
            return graph
        placement = {name: graph.layout.tf_device(u.destination) for u in units for name in u.members}
        return _Rewriting(
            graph.replace(placement=graph.placement | placement), units, self.step, self.container
        ).apply()


class _Rewriting:
    """Rewrites one worker's graph for all asynchronous units."""

    def __init__(self, graph: DistributedGraph, units: list[ServedUnit], step: str, container: str) -> None:
        self.graph = graph
        self.layout = graph.layout
        self.units = units
        self.nodes = graph.edit()
        self.proxies = ProxyWriter(self.nodes, self.layout, graph.variables, container)
        unit_of = {name: unit.name for unit in units for name in unit.variables}
        self.points: dict[str, list[SyncPoint]] = {unit.name: [] for unit in units}
        for point in graph.points:
            if point.variable in unit_of:
                self.points[unit_of[point.variable]].append(point)
        self.regions = UnitRegions(graph, units, self.points)
        self.lines = {u.name: _Line(self, u, k, f"{step}/relaxed/{u.name}") for k, u in enumerate(units)}

    def apply(self) -> DistributedGraph:
        gone = {point.name for points in self.points.values() for point in points}
        points = tuple(point for point in self.graph.points if point.name not in gone)
        effects = [e for e in self.graph.effects if e not in self.regions.writes and not self.regions.behind.get(e)]
        for line in self.lines.values():
            effects += line.send()
        served = [
            line for line in self.lines.values() if self.layout.rank_of(line.unit.destination) == self.layout.rank
        ]
        for line in served:
            line.serve()
        changed = self.graph.replace(
            effects=tuple(effects),
            points=points,
            initializers=(*self.graph.initializers, *(node for line in served for node in line.initializers)),
            serving=(*self.graph.serving, *_servings(served)),
            asynchronous=tuple(name for unit in self.units for name in unit.members),
            waits=bool(points) or any(unit.synchronizer.sync for unit in self.units),
            notes=(*self.graph.notes, _NOTE),
        )
        alive = [n for p in points for n in (*p.synced, *map(node_of, p.given))]
        roots = [*map(node_of, (*changed.outputs, *changed.local_outputs)), *effects, *changed.kept, *alive]
        # Nothing waits for the updates of asynchronous units any more.
        self.nodes.stop_waiting({*self.regions.writes, *(name for name, bits in self.regions.behind.items() if bits)})
        self.nodes.prune(roots)
        return changed.edited(self.nodes)


class _Line:
    """One unit's way from the workers to its server."""

    def __init__(self, rewriting: _Rewriting, unit: ServedUnit, number: int, shared: str) -> None:
        self.unit = unit
        self.points = rewriting.points[unit.name]
        self.initializers: list[str] = []
        self.targets: list[str] = []
        self.stops: list[str] = []
        self.parts = self._parts(rewriting)
        self._graph = rewriting.graph
        self._layout = rewriting.layout
        self.world_size = rewriting.layout.world_size
        self._nodes = rewriting.nodes
        self._proxies = rewriting.proxies
        self._copies = f"autodist/serve/{number}"
        self._region: UnitRegion = rewriting.regions.region(unit.name)
        crossing = [tensor_dtype(self._graph.nodes, tensor) for tensor in self._region.crossing]
        self._dtypes = [dtype for point in self.points for dtype in point.dtypes] + crossing
        device = self._layout.tf_device(unit.destination)
        self._tokens = Queues(
            self._nodes, device, f"autodist/relaxed/{number}", shared, unit.synchronizer.staleness + 2
        )
        ahead = self._tokens.capacity if unit.synchronizer.sync else MOST_AHEAD * len(self.parts)
        self._messages = Queues(self._nodes, device, f"autodist/relaxed/{number}", shared, ahead)

    def _parts(self, rewriting: _Rewriting) -> list[GradientPart]:
        """The senders; a message has all of a unit's gradients, so if one can't be taken apart, none is."""
        whole = next((point for point in self.points if not point.parts), self.points[0])
        return parts_of(self.unit, whole, rewriting.layout)

    # What every worker does --------------------------------------------------------------------------------------

    def send(self) -> list[str]:
        """Push this worker's messages; take a token for the next step."""
        added = []
        for part in self.parts:
            if part.rank == self._layout.rank:
                gradients = [tensor for point in self.points for tensor in part.tensors(point)]
                tensors = [*gradients, *self._region.crossing]
                added.append(self._messages.put(self._channel(part), f"push_{part.label}", tensors, self._dtypes))
        if self.unit.synchronizer.sync:
            channel = _token(self._layout.rank)
            added.append(self._tokens.take(channel, f"take_{channel}", ["bool"]))
        return added

    def _channel(self, part: GradientPart) -> str:
        """All senders of an asynchronous unit share a queue."""
        return f"messages_of_{part.label}" if self.unit.synchronizer.sync else "messages"

    # What the server does ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Add what a round does."""
        gradients, crossing = self._receive()
        given = dict(zip(self._region.crossing, crossing, strict=True))
        self._copy_region(given | gradients)
        roots = [self._copy_of(root) for root in self._region.roots]
        done = [*roots, *self._proxies.update(self.unit, "served", roots)]
        self.targets += done
        if self.unit.synchronizer.sync:
            self._hand_tokens(done)

    def _receive(self) -> tuple[dict[str, str], list[str]]:
        """Take a round's messages; returns what replaces synced nodes, and the values that came along."""
        senders = self.parts if self.unit.synchronizer.sync else self.parts[:1]
        messages = []
        for part in senders:
            taken = self._messages.take(self._channel(part), f"take_{part.label}", self._dtypes)
            self.stops.append(self._messages.close(self._channel(part), f"close_{part.label}", self._dtypes))
            messages.append([f"{taken}:{k}" for k in range(len(self._dtypes))])
        gradients: dict[str, str] = {}
        position = 0
        self._nodes.device = self._messages.device
        for point in self.points:
            join = self._nodes.sum if point.combine is Combine.SUM else self._nodes.concat
            for synced, dtype in zip(point.synced, point.dtypes, strict=True):
                gradients[synced] = join(self._copy_of(synced), [message[position] for message in messages], dtype)
                position += 1
        return gradients, messages[0][position:]

    def _copy_of(self, name: str) -> str:
        return f"{self._copies}/{name}"

    def _copy_region(self, given: dict[str, str]) -> None:
        """Copy the update, which reads the messages that have arrived."""
        members = set(self._region.nodes)
        for name in self._region.nodes:
            original = self._graph.nodes[name]
            inputs = [self._given(tensor, given, members) for tensor in data_inputs(original)]
            waits = [f"^{self._copy_of(other)}" for other in self._region.waits.get(name, ())]
            device = self._messages.device
            self._nodes.clone(original, self._copy_of(name), inputs + waits, device=device, without=["_class"])

    def _given(self, tensor: str, given: dict[str, str], members: set[str]) -> str:
        name = node_of(tensor)
        if name in members:
            return self._copy_of(tensor)
        return given.get(normalize(tensor), tensor)

    def _hand_tokens(self, done: Sequence[str]) -> None:
        """Send every worker a token after each round, and as many as the staleness before the first."""
        for rank in range(self._layout.world_size):
            channel = _token(rank)
            self.targets.append(self._tokens.signal(channel, f"hand_{channel}", done))
            self.stops.append(self._tokens.close(channel, f"close_{channel}", ["bool"]))
            in_advance = self.unit.synchronizer.staleness
            self.initializers.append(self._tokens.signals(channel, f"advance_{channel}", in_advance))


def _token(rank: int) -> str:
    return f"token_to_{rank}"


def _servings(lines: Sequence[_Line]) -> list[Serving]:
    """Units whose rounds take the same messages are served together."""
    groups: dict[tuple[GradientPart, ...] | None, list[_Line]] = {}
    for line in lines:
        groups.setdefault(None if line.unit.synchronizer.sync else tuple(line.parts), []).append(line)
    return [_serving(parts, group) for parts, group in groups.items()]


def _serving(parts: tuple[GradientPart, ...] | None, lines: Sequence[_Line]) -> Serving:
    """One round of several units; ``parts`` are the senders of asynchronous ones."""
    senders = sorted({part.rank for part in lines[0].parts}) if parts is None else [part.rank for part in parts]
    return Serving(
        name=lines[0].unit.name,
        targets=tuple(target for line in lines for target in line.targets),
        stops=tuple(stop for line in lines for stop in line.stops),
        variables=tuple(name for line in lines for name in line.unit.members),
        messages=tuple(senders.count(rank) for rank in range(lines[0].world_size)),
        per_round=len(senders) if parts is None else 1,
    )
