"""Conditions of a strategy for a graph on a cluster: one small function per aspect, all in the table `CHECKS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.carriers import Carrier
from autodist.strategies._coupled import coupled_units
from autodist.strategies._problem import Problem, differing, listed
from autodist.strategies._strategy import Strategy
from autodist.strategies.checks._check_compressors import compressors
from autodist.strategies.checks._check_delays import check_delays
from autodist.strategies.checks._check_factors import check_factors
from autodist.strategies.checks._check_partition import partitions
from autodist.strategies.synchronizers import Check, Synchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec


def _variables(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    roles = {variable.name: variable.role.value for variable in graph.variables}
    trainable = {variable.name for variable in graph.trainable}
    counts = Counter(config.variable for config in strategy.variables)
    for name, count in counts.items():
        if name not in trainable:
            reason = f"in the graph it is a {roles[name]}" if name in roles else "the graph has no such variable"
            yield Problem(name, "config", "given", "for variables with a gradient only", reason)
        if count > 1:
            yield Problem(name, "config", f"given {count} times", "once", "it would not be clear which one holds")
    for variable in graph.trainable:
        if variable.name not in counts:
            yield Problem(variable.name, "config", "missing", "one", "every variable with a gradient needs one")


def _shards(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    for config in strategy.variables:
        if config.partition is None and len(config.shards) != 1:
            reason = "a variable without partition is one shard"
            yield Problem(config.variable, "number of shards", f"{len(config.shards)}", "1", reason)


def _replicas(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    counts, known = Counter(strategy.graph.replicas), {device.name for device in spec.devices}
    if not counts:
        yield Problem(None, "list of replicas", "empty", "at least one device", "some device must compute")
    for name, count in counts.items():
        if name not in known:
            yield Problem(None, "replica", f"{name!r}", listed(known), "the cluster has no such device")
        if count > 1:
            yield Problem(None, "replica", f"{name!r} {count} times", "once", "a device holds one copy of the graph")


def _idle_hosts(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the hosts that neither compute nor serve."""
    wanted = {
        *strategy.graph.replicas,
        *(synchronizer.home for _, synchronizer in strategy.synchronizers),
    }
    for host in spec.hosts:
        if strategy.graph.replicas and not wanted & {device.name for device in (*host.cpu_devices, *host.gpu_devices)}:
            reason = "its worker would have nothing to compute and nothing to serve; leave the host out of the spec"
            allowed = "at least 1, or a destination of variables there"
            yield Problem(None, f"number of replicas on `{host.name}`", "0", allowed, reason)


def _packing(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    size = strategy.graph.pack_bytes
    if size is not None:
        reason = "it is of earlier versions, whose servers were reached through TensorFlow's"
        yield Problem(None, "`pack_bytes` of the graph", f"{size}", "no such entry", reason)


def _beside_servers(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    if not strategy.has_servers:
        return
    small = carriers.find(strategy.graph.communicator)
    if small is not None and not small.has_streams:
        allowed = f"{_that_fit(lambda one: one.has_streams)} together with parameter servers"
        reason = "it does not carry what servers get and give"
        yield Problem(None, "communicator of the graph", f"{small.name!r}", allowed, reason)
    for name, synchronizer in strategy.synchronizers:
        carrier = None if synchronizer.carrier is None else carriers.find(synchronizer.carrier)
        if carrier is not None and not carrier.fits_servers:
            allowed = f"{_that_fit(lambda one: one.fits_servers)} together with parameter servers"
            yield Problem(name, "communicator", f"{carrier.name!r}", allowed, carrier.unfit)


def _that_fit(fits: Callable[[Carrier], object]) -> str:
    *others, last = (f"{name!r}" for name in sorted(carriers.names_of(fits)))
    return f"{', '.join(others)} or {last}" if others else last


def _coupled(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    reason = "their updates share a norm, a branch or a slot, so they are computed in one place"
    given: dict[str, list[Synchronizer]] = {}
    tiled = {name for name, synchronizer in strategy.synchronizers if synchronizer.tiled_for is not None}
    for name, synchronizer in strategy.synchronizers:
        if name not in tiled:
            given.setdefault(name, []).append(synchronizer)
    for unit in coupled_units(graph):
        members = [(s, v.name) for v in unit for s in given.get(v.name, ()) if len(unit) > 1]
        destinations = [(s.home, name) for s, name in members if s.home is not None]
        kinds = [(s.type, name) for s, name in members if destinations]  # all others keep variables on every worker
        yield from differing("synchronizer of coupled variables", kinds, "one kind for all of them", reason)
        for home, name in destinations if any(v.name in tiled for v in unit) else ():
            beside = next(v.name for v in unit if v.name in tiled)
            why = f"its update shares a norm, a branch or a slot with that of `{beside}`, of which replicas have parts"
            yield Problem(name, "destination", f"{home!r}", "none: every worker has to have it", why)
        yield from differing("destination of coupled variables", destinations, "one device for all of them", reason)


def _communicators(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the names of communicators that a strategy made in Python may have, but its JSON may not."""
    of_shards = ((name, synchronizer.carrier) for name, synchronizer in strategy.synchronizers)
    for variable, communicator in ((None, strategy.graph.communicator), *of_shards):
        if communicator is None:
            continue
        if carriers.find(communicator) is None:
            allowed = " or ".join(f"{name!r}" for name in carriers.names())
            reason = carriers.FORMER.get(communicator, "there is no other")
            yield Problem(variable, "communicator", f"{communicator!r}", allowed, reason)


def _kinds(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the problems that each kind of synchronizer finds with its own shards."""
    used = {type(synchronizer) for _, synchronizer in strategy.synchronizers}
    for kind in sorted(used, key=lambda one: (one.form.value, one.type)):
        for check in kind.checks():
            yield from check(strategy, graph, spec)


CHECKS: tuple[Check, ...] = (
    _variables,
    _shards,
    partitions,
    _replicas,
    _packing,
    _kinds,
    _beside_servers,
    _coupled,
    check_delays,
    _idle_hosts,
    compressors,
    check_factors,
    _communicators,
)
