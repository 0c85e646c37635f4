"""PS: one device holds the variable; with stations, proxies and staleness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from autodist.cost import fetched_bytes, pushed_bytes
from autodist.strategies._asynchronous_uses import asynchronous_uses
from autodist.strategies._coupled import coupled_units
from autodist.strategies._problem import Problem, listed
from autodist.strategies._shard_messages import host_of
from autodist.strategies.synchronizers._base import Check, Columns, Form, Synchronizer, Terms
from autodist.strategies.synchronizers._choice import Choice

if TYPE_CHECKING:
    from autodist.compressors import Compressor
    from autodist.cost import Links, Share
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import Host, ResourceSpec
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig, Strategy

_MOST_STALENESS = 1_000_000


@dataclass(frozen=True)
class PSSynchronizer(Synchronizer):
    """(Reduce, Broadcast): the variable lives on one device, which gets the gradients and gives the value away.

    Thesis 7.3.2, synchronization and bridging models; the sparse form is (Gather, Scatter).

    Attributes:
        destination: The device that holds the variable and its slots and applies the update, ``"host:CPU:0"``.
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0; 0 is bulk-synchronous.
        local_proxy: Whether every worker reads from a cached copy of its own.
        transfer: One device per host where gradients are summed and values fetched once for the whole host.

    Example:
        >>> PSSynchronizer("a:CPU:0", staleness=2).columns().told
        'PS (staleness=2)'
    """

    type: ClassVar[str] = "PS"
    form: ClassVar[Form] = Form.SERVED
    verb: ClassVar[str] = "served"
    destination: str
    sync: bool = True
    staleness: int = 0
    local_proxy: bool = False
    transfer: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        """See the base class."""
        return self.destination

    @property
    def devices(self) -> tuple[str, ...]:
        """See the base class."""
        return self.destination, *self.transfer

    @property
    def is_asynchronous(self) -> bool:
        """Whether a worker may go on before the others' gradients have been applied."""
        return not self.sync or self.staleness > 0

    def renamed(self, name: Callable[[str], str]) -> PSSynchronizer:
        """See the base class."""
        return replace(self, destination=name(self.destination), transfer=tuple(map(name, self.transfer)))

    def at(self, home: str) -> PSSynchronizer:
        """See the base class."""
        return replace(self, destination=home)

    def with_transfer(self, devices: tuple[str, ...]) -> PSSynchronizer:
        """See the base class."""
        return replace(self, transfer=devices) if self.transfer else self

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """The messages as they travel: the value is sent once for all reads; small messages may be packed."""
        if self.local_proxy:  # one copy of the value, from which all reads are served
            message = message.changed(reads=min(message.reads, 1))
        if self.is_asynchronous:
            return message.never_coded
        message = message.changed(is_streamed=True) if graph.has_streams else message.never_coded
        if self.local_proxy:
            return message
        has_rows = message.gathered_rows or message.lookup_rows
        is_packed = 0 < message.summed_bytes <= (graph.pack_bytes or 0) and not has_rows
        comes_once = graph.pack_bytes or graph.has_streams
        reads = min(message.reads - later_reads, 1) + later_reads if comes_once else message.reads
        return message.changed(reads=reads, is_packed=is_packed)

    def links(self, message: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
        """Every other worker's replicas push their gradients, and it fetches the value as often as the step reads it.

        A station sums a host's gradients before one leaves. Values are fetched once per worker in any case: TensorFlow
        sends a tensor that several devices of a task need only once.
        """
        server = host_of(self.destination)
        stations = {host_of(station) for station in self.transfer}
        links: Links = {}
        for host, own in cluster.items() if server in cluster else ():
            if host != server and own.replicas:
                senders = 1 if message.is_joined or host in stations else own.replicas
                links[host, server] = pushed_bytes(message, senders, 1, own.examples)
                links[server, host] = fetched_bytes(message, 1, own.examples)
        return links

    @classmethod
    def checks(cls) -> tuple[Check, ...]:
        """See the base class."""
        return _destinations, _staleness, _transfer, _proxies, _alike, _asynchronous, _waits_within_steps

    def misfits(self, compressor: Compressor, variable: Variable, shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        """See the base class."""
        rounds = compressor.rounds(shape, variable.dtype)
        if rounds > 1:
            yield (
                "AllReduce, or a compressor that sends one message",
                f"it sends {rounds} messages, each made from the sum of those before, and a server takes one",
            )
        if compressor.in_step and self.is_asynchronous:
            yield (
                "a synchronous server without staleness, AllReduce, or another compressor",
                "only a worker in the same step as the sender can decode a message",
            )

    def columns(self) -> Columns:
        """See the base class."""
        told = [] if self.sync else ["async"]
        told += [f"staleness={self.staleness}"] if self.staleness else []
        told += ["local proxy"] if self.local_proxy else []
        told += [f"through {', '.join(self.transfer)}"] if self.transfer else []
        text = f"{self.type} ({', '.join(told)})" if told else self.type
        return Columns(text, where=self.destination, staleness=self.staleness)

    def plotted(self) -> Mapping[tuple[str, str], float]:
        """See the base class."""
        return {
            ("server", self.destination): 1.0,
            ("staleness", "steps"): float(self.staleness),
            ("staleness", "async"): float(not self.sync),
            ("local proxy", ""): float(self.local_proxy),
            ("stations", ""): float(bool(self.transfer)),
        }

    @classmethod
    def words(cls, choice: Choice) -> frozenset[str]:
        """See the base class."""
        words = {name for name, value in (("transfer", choice.transfer), ("proxy", choice.local_proxy)) if value}
        words |= set() if choice.sync else {"async"}
        return frozenset(words)

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> PSSynchronizer:
        """See the base class."""
        transfer = stations if choice.transfer else ()
        return cls(home, choice.sync, choice.staleness, choice.local_proxy, transfer)

    def choice(self, graph: GraphConfig) -> Choice:
        """See the base class; records of earlier versions have no communicator, and no search would choose them."""
        return Choice(
            self.type,
            communicator=graph.communicator if graph.has_streams else None,
            transfer=bool(self.transfer),
            local_proxy=self.local_proxy,
            sync=self.sync,
            staleness=self.staleness,
        )

    def terms(self, message: ShardMessages) -> Terms:
        """See the base class."""
        return Terms(
            self.form,
            server=self.destination,
            has_own_connections=message.is_streamed,
            is_joined=message.is_joined or bool(self.transfer),
            is_proxied=self.local_proxy,
            read_bytes=message.read_bytes,
        )


def _destinations(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    known = {device.name for device in spec.devices}
    for name, synchronizer in strategy.synchronized_by(PSSynchronizer):
        if synchronizer.destination not in known:
            reason = "the cluster has no such device"
            yield Problem(name, "destination", f"{synchronizer.destination!r}", listed(known), reason)


def _staleness(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    for name, synchronizer in strategy.synchronized_by(PSSynchronizer):
        if synchronizer.staleness < 0:
            reason = "it counts steps that a worker may be ahead"
            yield Problem(name, "staleness", f"{synchronizer.staleness}", "at least 0", reason)
        if synchronizer.staleness > _MOST_STALENESS:
            reason = "a server keeps a token for each of these steps and each worker"
            yield Problem(name, "staleness", f"{synchronizer.staleness}", f"up to {_MOST_STALENESS}", reason)
        if synchronizer.staleness and not synchronizer.sync:
            given = f"{synchronizer.staleness} with `sync` false"
            yield Problem(name, "staleness", given, "0", "asynchronous workers do not wait, so nothing bounds it")


def _transfer(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    mistakes: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}  # thousands of shards have the same stations
    for name, synchronizer in strategy.synchronized_by(PSSynchronizer):
        stations = synchronizer.transfer
        if stations not in mistakes:
            mistakes[stations] = list(_mistaken_stations(stations, strategy, spec))
        for given, allowed, reason in mistakes[stations]:
            yield Problem(name, "transfer", given, allowed, reason)


def _mistaken_stations(
    stations: tuple[str, ...], strategy: Strategy, spec: ResourceSpec
) -> Iterator[tuple[str, str, str]]:
    """Yield each mistake as the given value, the allowed one, and the reason."""
    with_replicas = {device for host in _computing(strategy, spec) for device in _devices_of(host)}
    known = {device.name for device in spec.devices}
    for station in dict.fromkeys(stations):
        if station not in known:
            yield f"{station!r}", listed(known), "the cluster has no such device"
        elif station not in with_replicas:
            yield f"{station!r}", listed(with_replicas), "there is no replica on its host, so nothing to sum"
    for host in spec.hosts if stations else ():
        devices = _devices_of(host)
        own = [station for station in stations if station in devices]
        if len(own) > 1:
            reason = "what leaves a host goes through one device"
            yield f"{listed(own)} on `{host.name}`", "at most one device per host", reason


def _proxies(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    sparse = {variable.name for variable in graph.trainable if variable.is_sparse}
    for name, synchronizer in strategy.synchronized_by(PSSynchronizer):
        if synchronizer.local_proxy and name in sparse:
            reason = "only some of its rows are read in a step, a proxy would have the whole table travel"
            yield Problem(name, "local_proxy", "True", "False", reason)


def _alike(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the settings in which coupled variables at one server differ."""
    servers = dict(strategy.synchronized_by(PSSynchronizer))
    reason = "their updates share a norm, a branch or a slot, so they are one"
    for unit in coupled_units(graph):
        members = [(v.name, servers[v.name]) for v in unit if v.name in servers]
        for aspect in ("sync", "staleness", "transfer"):
            values: dict[str, list[str]] = {}
            for name, synchronizer in members:
                values.setdefault(repr(getattr(synchronizer, aspect)), []).append(name)
            if len(values) > 1:
                given = " but ".join(f"{value} for {listed(names)}" for value, names in values.items())
                yield Problem(None, f"{aspect} of coupled variables", given, "one value for all of them", reason)


def _asynchronous(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the uses that a step can't make of a variable that is updated alongside it."""
    asynchronous = {name: s for name, s in strategy.synchronized_by(PSSynchronizer) if s.is_asynchronous}
    if not asynchronous or graph.graph_def is None or spec.world_size == 1:
        return
    uses = asynchronous_uses(graph)
    for name, synchronizer in asynchronous.items():
        for use in uses.get(name, ()):
            aspect, given = ("staleness", f"{synchronizer.staleness}") if synchronizer.sync else ("sync", "False")
            allowed = "0" if synchronizer.sync else "True"
            yield Problem(
                name, aspect, given, allowed, f"{use}, which a server that runs at its own pace can't give it"
            )


def _waits_within_steps(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    if not strategy.is_asynchronous or graph.graph_def is None or spec.world_size == 1:
        return
    analysis = graph.analysis
    if not (analysis.joined or analysis.synchronized):
        return
    names = [name for name, synchronizer in strategy.synchronized_by(PSSynchronizer) if synchronizer.is_asynchronous]
    goes_on = "goes on with a gradient by what weights were made into"
    what = goes_on if analysis.joined else "has synchronized batch normalization"
    reason = f"the step {what}, for which the workers wait for each other"
    yield Problem(None, "synchronization", f"asynchronous for {listed(names)}", "`sync` true and staleness 0", reason)


def _devices_of(host: Host) -> set[str]:
    return {device.name for device in (*host.cpu_devices, *host.gpu_devices)}


def _computing(strategy: Strategy, spec: ResourceSpec) -> list[Host]:
    """Return the hosts with replicas."""
    return [host for host in spec.hosts if _devices_of(host) & set(strategy.graph.replicas)]
