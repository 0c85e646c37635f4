"""Placement: the one place where a variable lives for all steps of a scope.

A strategy is built for one step, and knows nothing of the steps before. Two steps that share variables (a generator's
and a discriminator's, say) must still find them in one place, and in the same parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from autodist.errors import StrategyError
from autodist.graph import TrainingGraph, Variable
from autodist.kernels import Layout, shard_name
from autodist.strategies import (
    ShardConfig,
    Strategy,
    VariableConfig,
    shard_slices,
)


@dataclass(frozen=True)
class Placements:
    """Which variables live at parameter servers and in which parts, as decided by the steps compiled so far."""

    _servers: Mapping[str, str] = field(default_factory=dict)
    _configs: Mapping[str, VariableConfig] = field(default_factory=dict)
    _partitions: Mapping[str, VariableConfig] = field(default_factory=dict)
    """By partitioned variable or slot, a config that says into what it is cut."""
    _lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By part of a tiled variable or slot that several groups of replicas have, its device in each."""

    def settle(self, strategy: Strategy, graph: TrainingGraph) -> Strategy:
        """The strategy, with the kinds of synchronizers, partitions and destinations that earlier steps have decided.

        A builder that knows only this step may want at a server what lives on every worker, or the other way around, as
        when a model is trained once more with layers that were frozen before.

        Raises:
            StrategyError: An earlier step keeps variables apart, or at a server, which this one needs together, or on
                every worker.
        """
        first_group = strategy.free_group
        configs = []
        for unit in _units(graph):
            decided = self._decided(unit, graph)
            for variable in unit:
                config = self._as_before(strategy.config(variable.name), unit, first_group)
                config = self._in_known_parts(config, variable, first_group)
                configs.append(self._settled(config, decided))
        by_name = {config.variable: config for config in configs}
        return replace(strategy, variables=tuple(by_name[config.variable] for config in strategy.variables))

    def _as_before(self, config: VariableConfig, unit: tuple[Variable, ...], first_group: int) -> VariableConfig:
        """A config of the kind by which its variable was trained before, or one that is updated together with it."""
        known = self._configs.get(config.variable)
        if known is None:
            known = next((self._configs[v.name] for v in unit if v.name in self._configs), None)
        if known is None or _kind(known) == _kind(config):
            return config
        if known.variable != config.variable:
            if len(known.shards) > 1:
                return config
            known = replace(known, variable=config.variable)
        return known.in_buffers_from(first_group)

    def _in_known_parts(self, config: VariableConfig, variable: Variable, first_group: int) -> VariableConfig:
        """A config with the partition of the step that trained the variable first, and its shards where they differ."""
        known = self._configs.get(config.variable)
        if known is None:
            return config
        shards = shard_slices(config.partition, variable.shape)
        if shards == shard_slices(known.partition, variable.shape):
            return config
        return known.in_buffers_from(first_group)

    def _settled(self, config: VariableConfig, server: str | None) -> VariableConfig:
        """A config with the destinations that are known."""
        if len(config.shards) == 1:
            return replace(config, shards=(_at(config.shards[0], config.variable, server),))
        names = [shard_name(config.variable, k) for k in range(len(config.shards))]
        shards = [_at(s, name, self._servers.get(name)) for s, name in zip(config.shards, names, strict=True)]
        known = self._configs.get(config.variable)
        for k, earlier in enumerate(known.shards if known is not None and len(known.shards) == len(shards) else ()):
            shards[k] = replace(shards[k], synchronizer=shards[k].synchronizer.as_before(earlier.synchronizer))
        return replace(config, shards=tuple(shards))

    def with_known_parts(self, strategy: Strategy, graph: TrainingGraph) -> Strategy:
        """The strategy, which also says into what variables are cut that the step only reads; for :func:`prepare`."""
        trained = {variable.name for variable in graph.trainable}
        along = {slot for name in trained for slot in _slots(strategy.config(name), graph)}
        names = [v.name for v in graph.variables if v.name not in trained and v.name not in along]
        known = tuple(self._partitions[name] for name in names if name in self._partitions)
        return replace(strategy, variables=(*strategy.variables, *known))

    def _decided(self, unit: tuple[Variable, ...], graph: TrainingGraph) -> str | None:
        """The server where an earlier step has put variables or slots of a unit, None if none has."""
        servers: dict[str, str] = {}
        for name in _members(unit, graph):
            if name in self._servers:
                servers.setdefault(self._servers[name], name)
        if len(servers) > 1:
            listed = " but ".join(f"`{name}` at {server}" for server, name in servers.items())
            raise StrategyError(
                f"this step updates variables together that an earlier step keeps apart: {listed}",
                hint="call first the step that trains them together, or use AllReduce",
            )
        return next(iter(servers), None)

    @property
    def has_served(self) -> bool:
        """Whether any variable lives at a server."""
        return bool(self._servers)

    def is_served(self, name: str) -> bool:
        """Whether a variable, or a part of it, lives at a server."""
        return any(other == name or other.startswith(shard_name(name, 0)[:-1]) for other in self._servers)

    def check(self, strategy: Strategy, graph: TrainingGraph, written: Collection[str]) -> None:
        """Check that a step changes variables at servers only through their synchronized updates.

        Raises:
            StrategyError: It changes one in another way, which every worker would repeat.
        """
        here = _served(strategy, graph)
        for name in written:
            if name in self._servers and name not in here:
                raise StrategyError(
                    f"this step changes `{name}` without a gradient, which lives at {self._servers[name]} since an "
                    "earlier step",
                    hint="change it in the step that trains it, or outside of the steps; or use AllReduce",
                )

    def after(
        self, strategy: Strategy, captured: TrainingGraph, prepared: Strategy, training: TrainingGraph
    ) -> Placements:
        """The placements after one more step was compiled.

        Args:
            strategy: As it was settled.
            captured: The step as captured.
            prepared: The strategy in terms of the parts that it makes.
            training: The step in these parts.
        """
        configs, partitions = dict(self._configs), dict(self._partitions)
        for variable in captured.trainable:
            config = strategy.config(variable.name)
            configs.setdefault(variable.name, config)
            if len(config.shards) > 1:
                for name in (variable.name, *_slots(config, captured)):
                    partitions.setdefault(name, replace(config, variable=name))
        lines = {**self._lines, **_lines_of(prepared, training)}
        return Placements({**self._servers, **_served(prepared, training)}, configs, partitions, lines)

    def known(self, names: Iterable[str], layout: Layout) -> dict[str, str]:
        """The TensorFlow devices of those variables that live at servers, or in parts with this worker's group."""
        placement = {name: self._servers[name] for name in names if name in self._servers}
        placement |= {name: self._lines[name][layout.group] for name in placement if name in self._lines}
        return {name: layout.tf_device(home) for name, home in placement.items()}

    def newly_served(self, strategy: Strategy, graph: TrainingGraph) -> list[str]:
        """Variables that this step gives to a server, and no step before."""
        return [name for name in _served(strategy, graph) if name not in self._servers]


def _at(shard: ShardConfig, name: str, server: str | None) -> ShardConfig:
    """A shard's config, with a destination if that is known."""
    if server is None:
        return shard
    if shard.synchronizer.home is None:
        raise StrategyError(
            f"`{name}` is {shard.synchronizer.verb} in this step, but lives at {server} since an earlier step",
            hint="use one kind of synchronizer for a variable in all steps of a scope, or one scope per step",
        )
    return replace(shard, synchronizer=shard.synchronizer.at(server))


def _kind(config: VariableConfig) -> tuple[bool, bool]:
    """Whether a variable lives at a server, and whether replicas have parts of it."""
    synchronizer = config.synchronizer
    return synchronizer.home is not None, synchronizer.tiled_for is not None


def _slots(config: VariableConfig, graph: TrainingGraph) -> list[str]:
    """The slots that are cut with a variable."""
    if len(config.shards) == 1:
        return []
    shape = graph.variable(config.variable).shape
    if config.synchronizer.tiled_for is not None:
        graph = graph.in_parts
    return [slot.name for slot in graph.slots_of(config.variable) if slot.shape == shape]


def _units(graph: TrainingGraph) -> list[tuple[Variable, ...]]:
    """The trainable variables in sets that are updated together."""
    units: dict[str, list[Variable]] = {}
    for variable in graph.trainable:
        units.setdefault(min((*variable.coupled, variable.name)), []).append(variable)
    return [tuple(unit) for unit in units.values()]


def _members(unit: tuple[Variable, ...], graph: TrainingGraph) -> list[str]:
    """A unit's variables and their slots."""
    slots = (slot for variable in unit for slot in graph.slots_of(variable.name))
    return list(dict.fromkeys(member.name for member in (*unit, *slots)))


def _served(strategy: Strategy, graph: TrainingGraph) -> Mapping[str, str]:
    """By variable or slot that this step gives to a server, the server."""
    served = {}
    for unit in _units(graph):
        home = strategy.config(unit[0].name).synchronizer.home
        if home is not None:
            served.update(dict.fromkeys(_members(unit, graph), home))
    return served


def _lines_of(strategy: Strategy, graph: TrainingGraph) -> Mapping[str, tuple[str, ...]]:
    """By part of a variable or slot that several groups of replicas have, its devices."""
    found = {}
    for unit in _units(graph):
        synchronizer = strategy.config(unit[0].name).synchronizer
        if synchronizer.tiled_for is not None and len(synchronizer.devices) > 1:
            found.update(dict.fromkeys(_members(unit, graph), synchronizer.slot_devices))
            found.update(dict.fromkeys((variable.name for variable in unit), synchronizer.devices))
    return found
