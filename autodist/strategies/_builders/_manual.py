"""A plan that an expert has written by hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, final

from autodist import carriers
from autodist.carriers import Collective, carrier_of_servers, installed_communicators
from autodist.errors import StrategyError
from autodist.fitting_names import fits_name
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._builders._collectives import AnyCommunicator, in_backward_order
from autodist.strategies._builders._plan_file import (
    GRAPH,
    LAYOUTS,
    LOAD_BALANCED,
    WHOLE,
    Dim,
    FactorsSection,
    GroupSection,
    Plan,
    ServerSection,
    ShardSection,
    VariableSection,
    read_plan,
)
from autodist.strategies._builders._servers import PlacedUnit, server_devices, spread, transfer_devices
from autodist.strategies._builders._tile_variables import can_tile, tile_config, why_whole
from autodist.strategies._coupled import coupled_units
from autodist.strategies._problem import listed
from autodist.strategies._shards import num_shards, shard_slices
from autodist.strategies._strategy import (
    Communicator,
    GraphCommunicator,
    GraphConfig,
    ShardConfig,
    Strategy,
    VariableConfig,
)
from autodist.strategies.synchronizers import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    PSSynchronizer,
    Synchronizer,
    group_problems,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition

_CHUNK_SIZE = 128

_Shard: TypeAlias = tuple[str, int]
"""A variable's name and the number of one of its shards."""


class PlanWarning(UserWarning):
    """A pattern of a plan that holds for no variable."""


@final
@dataclass(frozen=True)
class Manual(StrategyBuilder):
    """A plan file: YAML that says for patterns of variable names what holds for them, the first match wins.

    The strategies that experts write by hand; ``docs/manual_strategy.md`` describes the file. A strategy's JSON names
    every variable and device, a plan need not: it fits other models with similar names, and other clusters.

    Attributes:
        plan: Path of the file; relative to the working directory.

    Raises:
        StrategyError: On building, if the file can't be read or has mistakes, or does not fit the graph or the cluster;
            all mistakes are listed.

    Warns:
        PlanWarning: A pattern holds for no variable.
    """

    name: ClassVar[str] = "Manual"
    file: ClassVar[str | None] = "plan"
    plan: str = "plan.yml"

    def read(self) -> Plan:
        """Read the file.

        Raises:
            StrategyError: It can't be read, or has mistakes.
        """
        return read_plan(self.plan)

    def carriers(self, installed: Sequence[Communicator]) -> tuple[GraphCommunicator, ...]:
        """Return the carriers of the plan's groups, factors and graph."""
        return self.read().carriers(installed)

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the file describes."""
        return _Draft(self.read(), graph, spec).strategy(str(self))


class _Draft:
    """A plan on its way to a strategy for one graph and cluster.

    Attributes:
        sections: By variable, its pattern and its section.
        partitions: By variable, its partition.
        shards: By shard, its section.
    """

    def __init__(self, plan: Plan, graph: TrainingGraph, spec: ResourceSpec) -> None:
        self.plan, self.graph, self.spec = plan, graph, spec
        self.replicas = plan.graph.replicas or replica_names(spec)
        self.groups = self._number_of_groups()
        plan.document.check()  # with groups, rules are for other variables
        self.parts = len(self.replicas) // self.groups
        self.tiled = dict(self._tiled()) if self.parts > 1 else {}
        self.others = tuple(v for v in graph.trainable if v.name not in self.tiled)
        self.sections = self._matched()
        self.between = dict(self._between())
        self.partitions = {v.name: self._partition(v, *self.sections[v.name]) for v in self.others}
        self._check_devices()
        plan.document.check()
        self.shards = dict(self._shards())
        plan.document.check()

    def strategy(self, builder: str) -> Strategy:
        destinations, groups = self._destinations(), self._groups()
        synchronizers = {
            key: self._synchronizer(key, shard, destinations, groups) for key, shard in self.shards.items()
        }
        configs = [self._tile(name, dim, groups) for name, dim in self.tiled.items()]
        for variable in self.others:
            count = num_shards(self.partitions[variable.name])
            keys = [(variable.name, index) for index in range(count)]
            shards = tuple(ShardConfig(synchronizers[key], self.shards[key].compressor) for key in keys)
            configs.append(VariableConfig(variable.name, shards, self.partitions[variable.name]))
        order = {variable.name: place for place, variable in enumerate(self.graph.trainable)}
        configs.sort(key=lambda config: order[config.variable])
        graph = GraphConfig(self.replicas, self._communicator(synchronizers))
        return Strategy(graph, tuple(configs), builder=builder)

    # Layouts ----------------------------------------------------------------------------------------------------------

    def _tiled(self) -> Iterator[tuple[str, int]]:
        """By variable of which each replica has a part, the dim that is cut; what does not fit is noted."""
        used: set[str] = set()
        for variable in self.graph.trainable:
            used.update(p for p in self.plan.layouts if fits_name(p, variable.name))
            found = self.plan.tiled(variable.name)
            if found is None:
                continue
            pattern, dim = found
            if can_tile(self.graph, variable.name, dim, self.parts):
                yield variable.name, dim
            else:
                self._refuse((LAYOUTS, pattern), self._why_not(variable, dim))
        self._warn_of_idle_among((LAYOUTS,), self.plan.layouts, used)

    def _why_not(self, variable: Variable, dim: int) -> str:
        count = self.parts
        fitting = [str(d) for d in range(len(variable.shape)) if can_tile(self.graph, variable.name, d, count)]
        allowed = ", ".join([*fitting, WHOLE])
        given = f"is {dim}, `{variable.name}` has the shape {variable.shape}, allowed for {count} replicas: {allowed}"
        reason = why_whole(self.graph, variable.name)
        return f"{given} ({reason})" if reason and not fitting else given

    def _tile(self, name: str, dim: int, numbers: dict[_Shard, int]) -> VariableConfig:
        """How a variable is tiled; its rule says how gradients of its parts are reduced between groups of replicas."""
        rule = self.between.get((name, 0))
        if rule is None:
            return tile_config(self.graph, self.spec, name, dim, replicas=self.replicas)
        given = "auto" if rule.all_reduce is None else rule.all_reduce.communicator
        return tile_config(
            self.graph,
            self.spec,
            name,
            dim,
            self.groups,
            numbers.get((name, 0), 0),
            replicas=self.replicas,
            compressor=rule.compressor,
            carrier=None if given == "auto" else given,
            served=None if rule.ps is None else list(self.tiled).index(name),
            staleness=None if rule.all_reduce is None else rule.all_reduce.staleness,
        )

    def _number_of_groups(self) -> int:
        """Into how many groups replicas fall; a number that does not fit is noted."""
        groups = self.plan.graph.groups
        found = list(group_problems(groups, self.replicas, self.spec)) if groups > 1 else []
        for problem in found:
            self._refuse((GRAPH, "groups"), f"is {groups}, allowed: {problem.allowed} ({problem.reason})")
        return 1 if found else groups

    def _between(self) -> Iterator[tuple[_Shard, ShardSection]]:
        """By tiled variable, if there are groups of replicas, what holds between these."""
        for name in self.tiled if self.groups > 1 else ():
            pattern, section = self.sections[name]
            is_served = section.ps == ServerSection() and section.compressor is None
            is_whole = section.partition is None and section.shards is None
            if not is_whole or not (is_served or section.all_reduce is not None):
                allowed = "allowed are `all_reduce`, perhaps with a `compressor` or a `staleness`, and `ps: {}`"
                self._refuse((pattern,), f"is for `{name}`, of which groups of replicas have parts: {allowed}")
            else:
                yield (name, 0), section

    # From patterns to shards ------------------------------------------------------------------------------------------

    def _matched(self) -> dict[str, tuple[str, VariableSection]]:
        sections = self.plan.sections
        found = {}
        with_rules = self.others if self.groups == 1 else tuple(self.graph.trainable)
        for variable in with_rules:
            for pattern, section in sections.items():
                if fits_name(pattern, variable.name):
                    found[variable.name] = pattern, section
                    break
        missing = [variable.name for variable in with_rules if variable.name not in found]
        if missing:
            text = f"{self.plan.document.source}: no pattern matches {listed(missing)}, every variable needs one"
            raise StrategyError(text, hint='end the plan with a pattern for all others: `"*": {all_reduce: {}}`')
        self._warn_of_idle_among((), sections, {pattern for pattern, _ in found.values()})
        return found

    def _warn_of_idle_among(self, above: tuple[str, ...], patterns: Iterable[str], used: set[str]) -> None:
        names = [variable.name for variable in self.graph.trainable]
        for pattern in [pattern for pattern in patterns if pattern not in used]:
            line = self.plan.document.position((*above, pattern), at_key=True).line
            earlier = any(fits_name(pattern, name) for name in names)
            why = "earlier patterns match all of its variables" if earlier else "it matches no variable"
            warnings.warn(f"{self.plan.document.source}:{line}: `{pattern}`: {why}", PlanWarning, stacklevel=7)

    def _partition(self, variable: Variable, pattern: str, section: VariableSection) -> Partition | None:
        partition = section.partition
        if isinstance(partition, Dim):
            entry, ones = partition.parts, (1,) * len(variable.shape)
            partition = (*ones[: partition.dim], entry, *ones[partition.dim + 1 :])
        if partition is None or set(partition) == {1}:
            return None
        try:
            shard_slices(partition, variable.shape)
        except ValueError as error:
            self._refuse((pattern, "partition"), f"does not fit `{variable.name}` of shape {variable.shape}: {error}")
            return None
        return partition

    def _shards(self) -> Iterator[tuple[_Shard, ShardSection]]:
        for variable in self.others:
            pattern, section = self.sections[variable.name]
            count = num_shards(self.partitions[variable.name])
            if section.shards is not None and len(section.shards) != count:
                text = f"has {len(section.shards)} elements, the partition of `{variable.name}` makes {count} shards"
                self._refuse((pattern, "shards"), text)
                continue
            for index in range(count):
                yield (variable.name, index), section.shards[index] if section.shards is not None else section

    def _check_devices(self) -> None:
        known = [device.name for device in self.spec.devices]
        for path, device in _devices(self.plan):
            if device not in known:
                self._refuse(path, f"is `{device}`, the cluster has {listed(known)}")

    def _refuse(self, path: tuple[str | int, ...], problem: str) -> None:
        from autodist.documents import key_path

        self.plan.document.add(path, f"`{key_path(path)}` {problem}", at_key=True)

    # From shards to synchronizers -------------------------------------------------------------------------------------

    def _destinations(self) -> dict[_Shard, str]:
        """The homes of the shards that are to be balanced; shards with given homes count as load there."""
        loads: dict[str, int] = {}
        served = {key: shard.ps.destination for key, shard in self.shards.items() if shard.ps is not None}
        for key, destination in served.items():
            loads[destination] = loads.get(destination, 0) + self._size_bytes(key)
        units = []
        for members in ([v for v in unit if v.name not in self.tiled] for unit in coupled_units(self.graph)):
            for index in range(max((num_shards(self.partitions[v.name]) for v in members), default=0)):
                keys = tuple((v.name, index) for v in members if served.get((v.name, index)) == LOAD_BALANCED)
                units += [PlacedUnit(sum(map(self._size_bytes, keys)), keys)] if keys else []
        return spread(units, server_devices(self.spec), loads)

    def _size_bytes(self, key: _Shard) -> int:
        variable = self.graph.variable(key[0])
        parts = shard_slices(self.partitions[variable.name], variable.shape)
        elements = sum(part.num_elements for part in parts)
        return variable.size_bytes * parts[key[1]].num_elements // max(1, elements)

    def _groups(self) -> dict[_Shard, int]:
        """The group of each shard that is reduced: the given one, else chunks of what one pattern matches."""
        rules = {**self.shards, **self.between}
        given = {
            key: shard.all_reduce.group
            for key, shard in rules.items()
            if shard.all_reduce is not None and shard.all_reduce.group is not None
        }
        first = max(given.values(), default=-1) + 1
        numbers: dict[tuple[object, ...], int] = {}
        counts: dict[tuple[object, ...], int] = {}
        for variable in in_backward_order(self.graph):
            for index in range(num_shards(self.partitions.get(variable.name))):
                key = variable.name, index
                section = rules[key].all_reduce if key in rules else None
                if section is None or key in given:
                    continue
                is_tiled = variable.name in self.tiled  # their gradients travel between groups only
                kind = (self.sections[variable.name][0], section, rules[key].compressor, variable.dtype, is_tiled)
                count = counts[kind] = counts.get(kind, -1) + 1
                chunk = key if variable.is_sparse else (*kind, count // (section.chunk_size or _CHUNK_SIZE))
                given[key] = first + numbers.setdefault(chunk, len(numbers))
        return given

    def _synchronizer(
        self, key: _Shard, shard: ShardSection, destinations: dict[_Shard, str], groups: dict[_Shard, int]
    ) -> Synchronizer:
        section = shard.synchronizer
        if isinstance(section, FactorsSection):
            return BroadcastSynchronizer(self._carrier(section.communicator))
        if isinstance(section, GroupSection):
            carrier = self._carrier(section.communicator)
            return AllReduceSynchronizer(groups[key], carrier, section.staleness or None)
        home = destinations.get(key, section.destination)
        transfer = transfer_devices(self.spec) if section.transfer == "auto" else section.transfer
        assert not isinstance(transfer, str)
        return PSSynchronizer(home, section.sync, section.staleness, section.local_proxy, transfer)

    def _carrier(self, communicator: AnyCommunicator) -> Communicator:
        return self.plan.automatic(installed_communicators()) if communicator == "auto" else communicator

    def _communicator(self, synchronizers: dict[_Shard, Synchronizer]) -> GraphCommunicator:
        if self.plan.graph.communicator != "auto":
            return self.plan.graph.communicator
        if self.tiled or any(s.home is not None for s in synchronizers.values()):
            return carrier_of_servers()
        used = sorted(carrier for s in synchronizers.values() if (carrier := s.carrier) is not None)
        return next((name for name in used if carriers.get(name).fits_servers), Collective.name)


def _devices(plan: Plan) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every device that a plan names, and the place in the plan."""
    for index, device in enumerate(plan.graph.replicas or ()):
        yield ("graph", "replicas", index), device
    for pattern, section in plan.sections.items():
        for path, shard in [((pattern,), section), *_numbered(pattern, section.shards or ())]:
            if shard.ps is not None:
                yield from (((*path, "ps", *where), device) for where, device in _server_devices(shard.ps))


def _numbered(pattern: str, shards: tuple[ShardSection, ...]) -> list[tuple[tuple[str | int, ...], ShardSection]]:
    return [((pattern, "shards", index), shard) for index, shard in enumerate(shards)]


def _server_devices(section: ServerSection) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if section.destination != LOAD_BALANCED:
        yield ("destination",), section.destination
    for index, device in enumerate(section.transfer if section.transfer != "auto" else ()):
        yield ("transfer", index), device
