"""What makes a strategy right for a graph on a cluster: one small function per aspect, all in the table `CHECKS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from autodist import carriers
from autodist.carriers import Carrier
from autodist.strategies._check_compressors import compressors
from autodist.strategies._check_factors import check_factors
from autodist.strategies._check_partition import partitions
from autodist.strategies._check_servers import SERVER_CHECKS
from autodist.strategies._coupled import coupled_units
from autodist.strategies._problem import Problem, listed
from autodist.strategies._strategy import (
    AllReduceSynchronizer,
    PSSynchronizer,
    Strategy,
    Synchronizer,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec

__all__ = ["CHECKS", "Check"]

_MOST_STALENESS = 1_000_000

Check: TypeAlias = "Callable[[Strategy, TrainingGraph, ResourceSpec], Iterator[Problem]]"


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
        yield Problem(None, "list of replicas", "empty", "at least one device", "somebody must compute")
    for name, count in counts.items():
        if name not in known:
            yield Problem(None, "replica", f"{name!r}", listed(known), "the cluster has no such device")
        if count > 1:
            yield Problem(None, "replica", f"{name!r} {count} times", "once", "a device holds one copy of the graph")


def _packing(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    size = strategy.graph.pack_bytes
    if size is not None and size < 1:
        reason = "tensors up to this size travel together; without the entry each travels alone"
        yield Problem(None, "`pack_bytes` of the graph", f"{size}", "at least 1", reason)


def _destinations(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    known = {device.name for device in spec.devices}
    for name, synchronizer in _synchronizers(strategy):
        if isinstance(synchronizer, PSSynchronizer) and synchronizer.destination not in known:
            reason = "the cluster has no such device"
            yield Problem(name, "destination", f"{synchronizer.destination!r}", listed(known), reason)


def _staleness(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    for name, synchronizer in _synchronizers(strategy):
        if not isinstance(synchronizer, PSSynchronizer):
            continue
        if synchronizer.staleness < 0:
            reason = "it counts steps that a worker may be ahead"
            yield Problem(name, "staleness", f"{synchronizer.staleness}", "at least 0", reason)
        if synchronizer.staleness > _MOST_STALENESS:
            reason = "a server keeps a token for each of these steps and each worker"
            yield Problem(name, "staleness", f"{synchronizer.staleness}", f"up to {_MOST_STALENESS}", reason)
        if synchronizer.staleness and not synchronizer.sync:
            given = f"{synchronizer.staleness} with `sync` false"
            yield Problem(name, "staleness", given, "0", "asynchronous training waits for nobody, so nothing bounds it")


def _group_numbers(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    for name, synchronizer in _synchronizers(strategy):
        if isinstance(synchronizer, AllReduceSynchronizer) and synchronizer.group < 0:
            yield Problem(name, "group", f"{synchronizer.group}", "at least 0", "groups are numbered from 0")


_Trait: TypeAlias = "Callable[[Variable, AllReduceSynchronizer], str]"
_GROUP_TRAITS: tuple[tuple[str, str, _Trait], ...] = (
    ("dtype", "a group travels in one buffer, which has one dtype", lambda v, s: v.dtype),
    ("communicator", "a group is one collective", lambda v, s: s.communicator),
    (
        "kind of gradient",
        "sparse gradients are gathered, not reduced: give each sparse variable a group of its own",
        lambda v, s: "sparse" if v.is_sparse else "dense",
    ),
)


def _groups(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    members: dict[int, list[tuple[Variable, AllReduceSynchronizer]]] = {}
    known = {variable.name: variable for variable in graph.trainable}
    for name, synchronizer in _synchronizers(strategy):
        if isinstance(synchronizer, AllReduceSynchronizer) and name in known:
            members.setdefault(synchronizer.group, []).append((known[name], synchronizer))
    for group in sorted(members):
        for trait, reason, of in _GROUP_TRAITS:
            values = [(of(variable, synchronizer), variable.name) for variable, synchronizer in members[group]]
            yield from _differing(f"{trait} of group {group}", values, "one for all members", reason)
        yield from _sparse_alone(group, [variable for variable, _ in members[group]])


def _sparse_alone(group: int, variables: list[Variable]) -> Iterator[Problem]:
    names = dict.fromkeys(variable.name for variable in variables)
    if len(names) > 1 and all(variable.is_sparse for variable in variables):
        reason = "their gradients are gathered, each with its own indices"
        yield Problem(None, f"number of sparse variables in group {group}", f"{len(names)}", "1", reason)


def _beside_servers(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    if not strategy.has_servers:
        return
    reason = (
        "TensorFlow's collectives number the steps of all workers in one sequence, and the clean-up after one worker's "
        "step then aborts what the servers compute for another's"
    )
    if _fits_no_servers(given := strategy.graph.communicator):
        allowed = f"{_that_fit(lambda carrier: carrier.fits_servers)} beside parameter servers"
        yield Problem(None, "communicator of the graph", f"{given!r}", allowed, reason)
    for name, synchronizer in _synchronizers(strategy):
        if not isinstance(synchronizer, PSSynchronizer) and _fits_no_servers(given := synchronizer.communicator):
            yield Problem(name, "communicator", f"{given!r}", f"{_collectives()} beside parameter servers", reason)


def _beside_queues(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    small = carriers.find(strategy.graph.communicator)
    if small is None or small.carries_gradients or strategy.has_servers:
        return
    reason = "TensorFlow's collectives abort what other workers wait for in queues"
    for name, synchronizer in _synchronizers(strategy):
        if not isinstance(synchronizer, PSSynchronizer) and _fits_no_servers(given := synchronizer.communicator):
            allowed = f"{_collectives()} beside queues, or {given!r} for the graph as well"
            yield Problem(name, "communicator", f"{given!r}", allowed, reason)


def _fits_no_servers(communicator: str) -> bool:
    carrier = carriers.find(communicator)
    return carrier is not None and not carrier.fits_servers


def _collectives() -> str:
    return _that_fit(lambda carrier: carrier.fits_servers and carrier.carries_gradients)


def _that_fit(fits: Callable[[Carrier], object]) -> str:
    *others, last = (f"{name!r}" for name in sorted(carriers.names_of(fits)))
    return f"{', '.join(others)} or {last}" if others else last


def _coupled(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    reason = "their updates share a norm, a branch or a slot, so they are computed in one place"
    synchronizers: dict[str, list[Synchronizer]] = {}
    for name, synchronizer in _synchronizers(strategy):
        synchronizers.setdefault(name, []).append(synchronizer)
    for unit in coupled_units(graph):
        members = [(s, v.name) for v in unit for s in synchronizers.get(v.name, ()) if len(unit) > 1]
        served = any(isinstance(s, PSSynchronizer) for s, _ in members)
        kinds = [(s.type, name) for s, name in members if served]  # all others keep variables on every worker
        homes = [(s.destination, name) for s, name in members if isinstance(s, PSSynchronizer)]
        yield from _differing("synchronizer of coupled variables", kinds, "one kind for all of them", reason)
        yield from _differing("destination of coupled variables", homes, "one device for all of them", reason)


def _communicators(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the names that a strategy made in Python has, and its JSON could not."""
    given: list[tuple[str | None, str]] = [(None, strategy.graph.communicator)]
    given += [(name, s.communicator) for name, s in _synchronizers(strategy) if not isinstance(s, PSSynchronizer)]
    for variable, communicator in given:
        carrier, of_gradients = carriers.find(communicator), variable is not None
        if carrier is None or (of_gradients and not carrier.carries_gradients):
            known = [one.name for one in carriers.carriers() if one.carries_gradients or not of_gradients]
            allowed = " or ".join(f"{name!r}" for name in known)
            yield Problem(variable, "communicator", f"{communicator!r}", allowed, "there is no other")


CHECKS: tuple[Check, ...] = (
    _variables,
    _shards,
    partitions,
    _replicas,
    _packing,
    _destinations,
    _staleness,
    _group_numbers,
    _groups,
    _beside_servers,
    _beside_queues,
    _coupled,
    *SERVER_CHECKS,
    compressors,
    check_factors,
    _communicators,
)


def _synchronizers(strategy: Strategy) -> Iterator[tuple[str, Synchronizer]]:
    for config in strategy.variables:
        for shard in config.shards:
            yield config.variable, shard.synchronizer


def _differing(aspect: str, values: list[tuple[str, str]], allowed: str, reason: str) -> Iterator[Problem]:
    """Yield a problem if the (value, variable) pairs have more than one value; it says who has which."""
    names: dict[str, dict[str, None]] = {}
    for value, name in values:
        names.setdefault(value, {})[name] = None
    if len(names) > 1:
        given = " but ".join(f"{value} for {listed(names[value])}" for value in names)
        yield Problem(None, aspect, given, allowed, reason)
