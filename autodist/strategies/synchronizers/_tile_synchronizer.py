"""Tile: each replica holds a part of the variable, computes with it and updates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from autodist import carriers
from autodist.cost import added, direct_gather, direct_reduce
from autodist.resource_spec import Device
from autodist.strategies._problem import Problem, listed
from autodist.strategies._shard_messages import host_of
from autodist.strategies.synchronizers._all_reduce_synchronizer import AllReduceSynchronizer
from autodist.strategies.synchronizers._base import Check, Columns, Form, Synchronizer, Terms
from autodist.strategies.synchronizers._choice import Choice

if TYPE_CHECKING:
    from autodist.compressors import Compressor
    from autodist.cost import Links, Share
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig, Strategy


@dataclass(frozen=True)
class TileSynchronizer(Synchronizer):
    """(Tile): each replica holds one part of the variable, computes with it, and updates it; no gradient travels.

    The variable is cut along one dim into as many parts as there are replicas, equal ones if that is possible. What is
    computed from them is computed where they are, so activations travel instead of gradients (SoyBean, Tofu).

    Or replicas fall into groups: each group has all parts, and computes with them as one replica does with the whole
    variable. Then gradients of a part travel between the replicas, one of each group, that have it.

    Attributes:
        destination: The device of the replica that has this part, ``"host:CPU:0"``; in the first group, if there are
            several.
        examples: The number of examples for which the exchanges of a step are planned, the same on all workers; 0 for
            any number.
        copies: The devices of the replicas of the other groups that have the part as well; None for one group.
        between: How the gradient is synchronized between groups; None for one group.
        server: The device, one of these, whose worker applies the updates of the part for all groups, and keeps its
            slots; None if each group does so itself.

    Example:
        >>> TileSynchronizer("a:CPU:0").columns().where
        'a:CPU:0'
    """

    type: ClassVar[str] = "Tile"
    form: ClassVar[Form] = Form.SERVED
    verb: ClassVar[str] = "tiled"
    destination: str
    examples: int = 0
    copies: tuple[str, ...] | None = None
    between: AllReduceSynchronizer | None = None
    server: str | None = None

    @property
    def between_groups(self) -> AllReduceSynchronizer | None:
        """See the base class."""
        return None if self.server is not None else self.between

    @property
    def delay(self) -> int:
        """See the base class."""
        return 0 if self.between is None else self.between.delay

    @property
    def groups(self) -> int:
        """Into how many groups replicas fall, each of which has all parts."""
        return 1 + len(self.copies or ())

    @property
    def carrier(self) -> str | None:
        """See the base class."""
        return None if self.between is None else self.between.carrier

    @property
    def group_number(self) -> int | None:
        """See the base class."""
        return None if self.between is None else self.between.group_number

    def in_group(self, number: int) -> TileSynchronizer:
        """See the base class."""
        return self if self.between is None else replace(self, between=self.between.in_group(number))

    @property
    def tiled_for(self) -> int:
        """See the base class."""
        return self.examples

    @property
    def home(self) -> str:
        """See the base class."""
        return self.destination

    @property
    def devices(self) -> tuple[str, ...]:
        """See the base class."""
        return (self.destination, *(self.copies or ()))

    @property
    def slot_devices(self) -> tuple[str, ...]:
        """See the base class."""
        return self.devices if self.server is None else (self.server,) * self.groups

    def renamed(self, name: Callable[[str], str]) -> TileSynchronizer:
        """See the base class."""
        copies = None if self.copies is None else tuple(map(name, self.copies))
        server = None if self.server is None else name(self.server)
        return replace(self, destination=name(self.destination), copies=copies, server=server)

    def at(self, home: str) -> TileSynchronizer:
        """See the base class."""
        return replace(self, destination=home)

    def as_before(self, earlier: Synchronizer) -> TileSynchronizer:
        """See the base class."""
        if earlier.tiled_for is None or len(earlier.devices) != self.groups:
            return self
        servers = set(earlier.slot_devices)
        return replace(self, server=servers.pop() if len(servers) == 1 < self.groups else None)

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """Nothing, with one group: neither the value nor its gradient leaves the replica.

        With several groups, one host of each has a part. What these send is described as if all hosts sent a smaller
        gradient, so that all parts together add up to what a host sends and keeps.
        """
        kept = message.changed(reads=0, lookup_rows=0.0).never_coded
        if self.between is None:
            return kept.changed(summed_bytes=0.0, gathered_bytes=0.0, gathered_rows=0.0, gradient_rows=0.0)
        hosts = len(set(map(host_of, graph.replicas)))
        share = self._share(hosts)
        return kept.changed(
            size_bytes=message.size_bytes * self.groups / max(1, hosts),
            summed_bytes=message.summed_bytes * share,
            gathered_rows=message.gathered_rows * share,
            kept_bytes=self.delay * message.size_bytes * self.groups / max(1, hosts),
        )

    def _share(self, hosts: int) -> float:
        """The number of other groups that a gradient goes to, relative to the number of other hosts."""
        return (self.groups - 1) / max(1, hosts - 1)

    def links(self, message: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
        """See the base class."""
        if self.between is None:
            return {}
        hosts, share = [host for host in map(host_of, self.devices) if host in cluster], self._share(len(cluster))
        if len(hosts) < 2:
            return {}
        if self.server is not None:
            rows = message.gathered_rows / share * sum(own.examples for own in cluster.values()) / self.groups
            gradient = message.summed_bytes / share + rows * message.gathered_row_bytes
            return self._star(gradient, message.size_bytes * len(cluster) / self.groups, hosts)
        summed = direct_reduce(message.summed_bytes / share, dict.fromkeys(hosts, 1 / len(hosts)))
        rows = message.gathered_rows / share * sum(own.examples for own in cluster.values()) / self.groups
        return added(summed, direct_gather(dict.fromkeys(hosts, rows * message.gathered_row_bytes)))

    def _star(self, gradient: float, value: float, hosts: Sequence[str]) -> Links:
        """Bytes of gradients to the server of a part, and of the value that comes back."""
        server = host_of(self.server or "")
        others = [host for host in hosts if host != server]
        return {(host, server): gradient for host in others} | {(server, host): value for host in others}

    @classmethod
    def checks(cls) -> tuple[Check, ...]:
        """See the base class."""
        return _parts, _groups, _servers, _together

    def misfits(self, compressor: Compressor, variable: Variable, shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        """See the base class."""
        if self.between is not None:
            yield from self.between.misfits(compressor, variable, shape)

    def columns(self) -> Columns:
        """See the base class."""
        if self.between is None:
            return Columns(self.type, where=self.destination)
        settings = [f"in {self.groups} groups"]
        settings += [] if self.server is None else [f"served by {self.server}"]
        settings += [f"staleness={self.delay}"] if self.delay else []
        told, where, between = f"{self.type} ({', '.join(settings)})", " and ".join(self.devices), self.between
        if self.server is not None:
            return Columns(told, where, communicator=between.communicator, staleness=self.delay or None)
        return Columns(told, where, between.group_number, between.communicator, self.delay or None)

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> TileSynchronizer:
        """See the base class."""
        return cls(home)

    @classmethod
    def suits(cls, choice: Choice, context: object) -> bool:
        """No: :class:`~autodist.search.tilings.Tiled` finds which dims go together, for all variables at once."""
        return False

    def choice(self, graph: GraphConfig) -> Choice:
        """See the base class."""
        return Choice(self.type, staleness=self.delay)

    def terms(self, message: ShardMessages) -> Terms:
        """See the base class."""
        if self.between is None:
            return Terms(self.form, server=self.destination, has_own_connections=True)
        if self.server is not None:
            return Terms(
                Form.SERVED,
                self.server,
                has_own_connections=True,
                read_bytes=message.summed_bytes or message.size_bytes,
            )
        return Terms(Form.REDUCED, group=self.between.group, has_own_connections=True, is_direct=True)


def _parts(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the variables without exactly one part for each replica of a group, in their order."""
    groups = strategy.groups_of_replicas
    for config in strategy.variables:
        kinds = {type(shard.synchronizer) for shard in config.shards}
        if TileSynchronizer not in kinds:
            continue
        name, variable = config.variable, graph.variable(config.variable)
        parts = _lines(strategy, groups)
        found = [shard.synchronizer.devices for shard in config.shards]
        if len(kinds) > 1 or found != parts:
            given, wanted = ([" and ".join(one) for one in several] for several in (found, parts))
            reason = "each replica computes with its own part, in the order of the replicas"
            yield Problem(name, "tiles", listed(given), listed(wanted), reason)
        cut = [
            (dim, entry)
            for dim, entry in enumerate((config.partition or ())[: len(variable.shape)])
            if (len(entry) if isinstance(entry, tuple) else entry) > 1
        ]
        if len(cut) > 1 or any(isinstance(entry, tuple) for _, entry in cut):
            allowed, reason = f"{len(parts)} parts of one dim", "replicas have parts that are as equal as they can be"
            yield Problem(name, "partition", f"{config.partition}", allowed, reason)
        numbers = {shard.synchronizer.tiled_for for shard in config.shards}
        if len(numbers) > 1 or min(number or 0 for number in numbers) < 0:
            yield Problem(name, "examples", listed(map(str, numbers)), "one number, at least 0", "it is one plan")
        if groups == 1 and any(shard.compressor for shard in config.shards):
            yield Problem(name, "compressor", f"{config.shards[0].compressor}", "None", "no gradient is encoded")


def _together(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield asynchronous variables, next to which tiles are impossible."""
    names = sorted(name for name, one in strategy.synchronizers if one.is_asynchronous)
    if names:
        reason = "replicas exchange what they compute with tiled variables within each step"
        yield Problem(None, "synchronization", f"asynchronous for {listed(names)}", "`sync` true, staleness 0", reason)


def _servers(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the parts whose servers can't be."""
    configs = {config.variable: config for config in strategy.variables}
    for name, tile in strategy.synchronized_by(TileSynchronizer):
        if tile.server is None:
            continue
        if tile.server not in tile.devices or tile.groups == 1:
            reason = "one of the groups applies the updates of a part for all"
            yield Problem(name, "server", f"{tile.server!r}", listed(tile.devices if tile.groups > 1 else ()), reason)
        carrier = None if tile.carrier is None else carriers.find(tile.carrier)
        if carrier is not None and not carrier.has_streams:
            allowed = " or ".join(map(repr, carriers.names_of(lambda one: one.has_streams)))
            yield Problem(name, "communicator", f"{tile.carrier!r}", allowed, "gradients go to servers as messages")
        found = next((shard.compressor for shard in configs[name].shards if shard.compressor), None)
        if found is not None:
            yield Problem(name, "compressor", f"{found!r}", "None", "groups send gradients to servers as they are")


def _lines(strategy: Strategy, groups: int) -> list[tuple[str, ...]]:
    """By part of a tiled variable, the replicas that have it: one of each group."""
    replicas = strategy.graph.replicas
    size = len(replicas) // groups
    return [replicas[k::size] if size else () for k in range(size)]


def group_problems(groups: int, replicas: Sequence[str], spec: ResourceSpec) -> Iterator[Problem]:
    """Yield why replicas can't fall into this many groups on a cluster, whatever the graph."""
    if len(replicas) % groups:
        reason = "each group has all parts of tiled variables"
        yield Problem(None, "groups", f"{groups}", f"divisors of the {len(replicas)} replicas", reason)
        return
    size = len(replicas) // groups
    counts = [sum(device.host == host.name for device in map(Device.parse, replicas)) for host in spec.hosts]
    if len(set(counts)) > 1 or size % max(1, counts[0]):
        reason = "a worker computes what is whole in its group once for all of its replicas"
        told = f"{size} replicas in each group, and {listed(map(str, counts))} on hosts"
        yield Problem(None, "groups", told, "groups of whole hosts, with equally many replicas on each", reason)


def _groups(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the reasons why replicas can't fall into these groups."""
    groups, replicas = strategy.groups_of_replicas, strategy.graph.replicas
    if groups == 1:
        return
    for name, tile in strategy.synchronized_by(TileSynchronizer):
        if tile.groups != groups or (tile.between is None):
            reason = "replicas fall into the same groups for all variables, and gradients travel between these"
            yield Problem(name, "copies", listed(tile.copies or ()), f"{groups - 1}, with a `between`", reason)
    yield from group_problems(groups, replicas, spec)
    if len(replicas) % groups:
        return
    tiles = (tile.carrier for _, tile in strategy.synchronized_by(TileSynchronizer))
    for carrier in sorted({strategy.graph.communicator, *filter(None, tiles)}):
        found = carriers.find(carrier)
        if found is not None and not found.has_groups:
            allowed = " or ".join(map(repr, carriers.names_of(lambda one: one.has_groups)))
            yield Problem(None, "communicator", f"{carrier!r}", allowed, "workers of a group meet without the others")
