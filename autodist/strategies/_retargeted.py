"""Uses a strategy's file on a cluster with other names, or another number of hosts, than it was made for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers import carrier_of_groups
from autodist.errors import StrategyError
from autodist.strategies._builders import StrategyBuilder, can_tile, tile_config
from autodist.strategies._shard_messages import host_of
from autodist.strategies._strategy import ShardConfig, Strategy, VariableConfig
from autodist.strategies.synchronizers import AllReduceSynchronizer
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Communicator, GraphCommunicator


class RetargetedWarning(UserWarning):
    """A strategy of another cluster that is used on this one."""


@final
@dataclass(frozen=True)
class Retargeted(StrategyBuilder):
    """A strategy's file for any cluster: see :func:`retargeted_to`.

    Attributes:
        strategy: The strategy in the file.
        path: The file's name, for messages.
    """

    name: ClassVar[str] = "Retargeted"
    strategy: Strategy
    path: str

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Return the strategy for this cluster, and warn that it was made for another one."""
        found = retargeted_to(self.strategy, graph, spec)
        told = f"the strategy `{self.path}` is of another cluster, and was fitted to this one: {found.builder}"
        warnings.warn(told, RetargetedWarning, stacklevel=1)  # once for all steps: Python counts by where it is
        return found

    def carriers(self, installed: Sequence[Communicator]) -> tuple[GraphCommunicator, ...]:
        """Return the strategy's carriers."""
        return self.strategy.carriers

    def __str__(self) -> str:
        return self.path


def is_of_another_cluster(strategy: Strategy, spec: ResourceSpec) -> bool:
    """Whether a strategy uses devices that a cluster does not have, or leaves a host with nothing to do."""
    used, known = set(_devices(strategy)), {device.name for device in spec.devices}
    hosts = {host_of(device) for device in used}
    return not used <= known or any(host.name not in hosts for host in spec.hosts)


def idle_devices(strategy: Strategy, spec: ResourceSpec) -> str:
    """How many devices of a cluster a strategy leaves without work, in words; empty if none."""
    idle = {device.name for device in spec.replicas} - set(strategy.graph.replicas)
    return f"{len(idle)} of the cluster's {len(spec.replicas)} devices compute nothing" if idle else ""


def retargeted_to(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
    """The strategy for another cluster: the same choices, for all its devices.

    All devices hold replicas, and what was tiled over all replicas is tiled over these; there are as many groups of
    replicas as before. On as many hosts, what was on one is on the one of the same rank; on more or fewer hosts,
    servers are balanced again by the bytes that they serve, in proportion to what hosts' links carry.

    Args:
        strategy: S, which holds only the names of its cluster's devices.
        graph: G.
        spec: The other cluster.

    Raises:
        StrategyError: A tiled variable can't be cut into as many parts as there are replicas.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import Host, ResourceSpec
        >>> from autodist.strategies import PSLoadBalancing
        >>> variables = [Variable(n, n, (100, 25), "float32", Role.TRAINABLE, (Gradient(n),)) for n in "vwx"]
        >>> graph = TrainingGraph(None, tuple(variables), (), (), ())
        >>> two, three = (ResourceSpec(tuple(Host(name, name) for name in names)) for names in ("ab", "cde"))
        >>> found = retargeted_to(PSLoadBalancing().build(graph, two), graph, three)
        >>> sorted(synchronizer.home for _, synchronizer in found.synchronizers)
        ['c:CPU:0', 'd:CPU:0', 'e:CPU:0']
    """
    before = list(dict.fromkeys(map(host_of, _devices(strategy))))
    destinations = _Destinations(before, spec)
    groups, known = strategy.groups_of_replicas, {variable.name for variable in graph.variables}
    variables = tuple(
        config  # the check of the strategy says that the graph has no such variable
        if config.variable not in known
        else _tiled(config, graph, spec, groups, strategy.free_group)
        if config.synchronizer.tiled_for is not None
        else _placed(config, graph, destinations)
        for config in strategy.variables
    )
    replicas = tuple(device.name for device in spec.replicas)
    others = "" if len(before) == len(spec.hosts) or not strategy.has_servers else ", with its servers balanced again"
    hosts = counted(len(spec.hosts), "host")
    builder = f"{strategy.builder or 'a file'}; made for {', '.join(before)}, used on {hosts}{others}"
    return replace(strategy, graph=replace(strategy.graph, replicas=replicas), variables=variables, builder=builder)


def _devices(strategy: Strategy) -> Iterator[str]:
    yield from strategy.graph.replicas
    yield from (synchronizer.home for _, synchronizer in strategy.synchronizers if synchronizer.home is not None)


class _Destinations:
    """The homes of shards on servers: by rank, or balanced again if the number of hosts differs."""

    def __init__(self, before: list[str], spec: ResourceSpec) -> None:
        self._spec = spec
        self._by_rank = {}
        if len(before) == len(spec.hosts):
            self._by_rank = {name: host.cpu_devices[0].name for name, host in zip(before, spec.hosts, strict=True)}
        self._seconds = dict.fromkeys((host.cpu_devices[0].name for host in spec.hosts), 0.0)

    def of(self, home: str, size_bytes: float) -> str:
        """The home of a shard whose home is on another cluster."""
        if self._by_rank:
            return self._by_rank[host_of(home)]
        rates = {host.cpu_devices[0].name: host.bandwidth_gbps for host in self._spec.hosts}
        found = min(rates, key=lambda device: self._seconds[device] + size_bytes / rates[device])
        self._seconds[found] += size_bytes / rates[found]
        return found

    @property
    def stations(self) -> tuple[str, ...]:
        """The devices on which hosts with several replicas sum their gradients."""
        return tuple(host.cpu_devices[0].name for host in self._spec.hosts if len(host.replica_devices) > 1)


def _placed(config: VariableConfig, graph: TrainingGraph, destinations: _Destinations) -> VariableConfig:
    size = graph.variable(config.variable).size_bytes / len(config.shards)
    return replace(config, shards=tuple(_shard(shard, size, destinations) for shard in config.shards))


def _shard(shard: ShardConfig, size_bytes: float, destinations: _Destinations) -> ShardConfig:
    synchronizer = shard.synchronizer
    if synchronizer.home is None:
        return shard
    moved = synchronizer.at(destinations.of(synchronizer.home, size_bytes))
    return replace(shard, synchronizer=moved.with_transfer(destinations.stations))


def _tiled(config: VariableConfig, graph: TrainingGraph, spec: ResourceSpec, groups: int, free: int) -> VariableConfig:
    """A tiled variable's config for another number of replicas; `free` is the number of no group of the strategy."""
    dim = next((dim for dim, cut in enumerate(config.partition or ()) if cut != 1), 0)
    hint = "take as many hosts as it was made for, or have another one made by `autodist search`"
    parts, rest = divmod(len(spec.replicas), groups)
    if rest:
        told = f"the strategy has {groups} groups of equally many replicas, here are {len(spec.replicas)} replicas"
        raise StrategyError(f"{told}, allowed: a multiple of {groups}", hint=hint)
    number, compressor = config.synchronizer.group_number, config.shards[0].compressor
    staleness = config.synchronizer.delay or None
    if parts == 1:  # each replica has all of it
        between = AllReduceSynchronizer(free if number is None else number, carrier_of_groups(), staleness)
        return VariableConfig.whole(config.variable, between, compressor)
    if not can_tile(graph, config.variable, dim, parts):
        raise StrategyError(
            f"the strategy cuts dim {dim} of `{config.variable}` over {len(config.shards)} replicas, here are {parts}, "
            f"and its shape {graph.variable(config.variable).shape} can't be cut into {parts} parts",
            hint=hint,
        )
    servers = set(config.synchronizer.slot_devices)
    served = config.synchronizer.devices.index(servers.pop()) if len(servers) == 1 < groups else None
    return tile_config(
        graph,
        spec,
        config.variable,
        dim,
        groups,
        number or 0,
        compressor=compressor,
        served=served,
        staleness=staleness,
    )
