"""What makes the parameter servers of a strategy right for a graph on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from autodist.strategies._coupled import coupled_units
from autodist.strategies._problem import Problem, listed
from autodist.strategies._relaxed_uses import relaxed_uses
from autodist.strategies._strategy import PSSynchronizer, Strategy

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import Host, ResourceSpec

__all__ = ["SERVER_CHECKS"]


def _idle_hosts(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the hosts that neither compute nor serve."""
    wanted = {*strategy.graph.replicas, *(synchronizer.destination for _, synchronizer in _servers(strategy))}
    for host in spec.hosts:
        if strategy.graph.replicas and not wanted & _devices_of(host):
            reason = "its worker would have nothing to compute and nothing to serve; leave the host out of the spec"
            allowed = "at least 1, or a destination of variables there"
            yield Problem(None, f"number of replicas on `{host.name}`", "0", allowed, reason)


def _transfer(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    mistakes: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}  # thousands of shards have the same stations
    for name, synchronizer in _servers(strategy):
        stations = synchronizer.transfer
        if stations not in mistakes:
            mistakes[stations] = list(_mistaken_stations(stations, strategy, spec))
        for given, allowed, reason in mistakes[stations]:
            yield Problem(name, "transfer", given, allowed, reason)


def _mistaken_stations(
    stations: tuple[str, ...], strategy: Strategy, spec: ResourceSpec
) -> Iterator[tuple[str, str, str]]:
    """Yield what is given, what is allowed, and why."""
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
    for name, synchronizer in _servers(strategy):
        if synchronizer.local_proxy and name in sparse:
            reason = "only some of its rows are read in a step, a proxy would have the whole table travel"
            yield Problem(name, "local_proxy", "True", "False", reason)


def _alike(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield what coupled variables at one server have different."""
    servers = dict(_servers(strategy))
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


def _relaxed(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield what a step can't do with a variable that changes beside it."""
    relaxed = {name: s for name, s in _servers(strategy) if s.is_relaxed}
    if not relaxed or graph.graph_def is None or spec.world_size == 1:
        return
    uses = relaxed_uses(graph)
    for name, synchronizer in relaxed.items():
        for use in uses.get(name, ()):
            aspect, given = ("staleness", f"{synchronizer.staleness}") if synchronizer.sync else ("sync", "False")
            allowed = "0" if synchronizer.sync else "True"
            yield Problem(name, aspect, given, allowed, f"{use}, which a server that runs beside it can't give it")


def _waits_within_steps(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    if not strategy.is_relaxed or graph.graph_def is None or spec.world_size == 1 or not graph.analysis.joins:
        return
    names = [name for name, synchronizer in _servers(strategy) if synchronizer.is_relaxed]
    goes_on = "goes on with a gradient by what weights were made into"
    what = goes_on if graph.analysis.dependence.joined else "has synchronized batch normalization"
    reason = f"the step {what}, for which the workers wait for each other"
    yield Problem(None, "synchronization", f"relaxed for {listed(names)}", "`sync` true and staleness 0", reason)


_Check: TypeAlias = "Callable[[Strategy, TrainingGraph, ResourceSpec], Iterator[Problem]]"
SERVER_CHECKS: tuple[_Check, ...] = (_idle_hosts, _transfer, _proxies, _alike, _relaxed, _waits_within_steps)


def _servers(strategy: Strategy) -> Iterator[tuple[str, PSSynchronizer]]:
    for config in strategy.variables:
        for shard in config.shards:
            if isinstance(shard.synchronizer, PSSynchronizer):
                yield config.variable, shard.synchronizer


def _devices_of(host: Host) -> set[str]:
    return {device.name for device in (*host.cpu_devices, *host.gpu_devices)}


def _computing(strategy: Strategy, spec: ResourceSpec) -> list[Host]:
    """Return the hosts with replicas."""
    return [host for host in spec.hosts if _devices_of(host) & set(strategy.graph.replicas)]
