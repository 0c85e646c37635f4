"""Homes: the one place where a variable lives for all steps of a scope.

A strategy is built for one step, and knows nothing of the steps before. Two steps that share variables (a generator's
and a discriminator's, say) must still find them in one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from autodist.errors import StrategyError
from autodist.graph import TrainingGraph, Variable
from autodist.kernels import Layout
from autodist.strategies import PSSynchronizer, Strategy, VariableConfig

__all__ = ["Homes"]


class Homes:
    """Which variables live at parameter servers, as decided by the steps compiled so far."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}

    def settle(self, strategy: Strategy, graph: TrainingGraph) -> Strategy:
        """The strategy, with the destinations that earlier steps have decided.

        Raises:
            StrategyError: An earlier step keeps variables apart, or at a server, which this one needs together, or on
                every worker.
        """
        decided = {unit[0].name: self._decided(unit, graph) for unit in _units(graph)}
        configs = []
        for unit in _units(graph):
            for variable in unit:
                configs.append(_settled(strategy.config(variable.name), decided[unit[0].name]))
        by_name = {config.variable: config for config in configs}
        return replace(strategy, variables=tuple(by_name[config.variable] for config in strategy.variables))

    def _decided(self, unit: tuple[Variable, ...], graph: TrainingGraph) -> str | None:
        """The server where an earlier step has put variables or slots of a unit, None if none has."""
        homes: dict[str, str] = {}
        for name in _members(unit, graph):
            if name in self._servers:
                homes.setdefault(self._servers[name], name)
        if len(homes) > 1:
            listed = " but ".join(f"`{name}` at {server}" for server, name in homes.items())
            raise StrategyError(
                f"this step updates variables together that an earlier step keeps apart: {listed}",
                hint="call first the step that trains them together, or use AllReduce",
            )
        return next(iter(homes), None)

    def check(self, strategy: Strategy, graph: TrainingGraph, written: Collection[str]) -> None:
        """See that a step changes variables at servers only through their synchronized updates.

        Raises:
            StrategyError: It changes one otherwise: every worker would do it.
        """
        here = _served(strategy, graph)
        for name in written:
            if name in self._servers and name not in here:
                raise StrategyError(
                    f"this step changes `{name}` without a gradient, which lives at {self._servers[name]} since an "
                    "earlier step",
                    hint="change it in the step that trains it, or outside of the steps; or use AllReduce",
                )

    def add(self, strategy: Strategy, graph: TrainingGraph) -> None:
        """Note where a newly compiled step keeps its variables."""
        self._servers.update(_served(strategy, graph))

    def known(self, names: Iterable[str], layout: Layout) -> dict[str, str]:
        """The TensorFlow devices of those variables that live at servers."""
        return {name: layout.tf_device(self._servers[name]) for name in names if name in self._servers}

    def newly_served(self, strategy: Strategy, graph: TrainingGraph) -> list[str]:
        """Variables that this step gives to a server, and no step before."""
        return [name for name in _served(strategy, graph) if name not in self._servers]


def _settled(config: VariableConfig, server: str | None) -> VariableConfig:
    if server is None:
        return config
    synchronizer = config.synchronizer
    if not isinstance(synchronizer, PSSynchronizer):
        raise StrategyError(
            f"`{config.variable}` is all-reduced in this step, but lives at {server} since an earlier step",
            hint="use one kind of synchronizer for a variable in all steps of a scope, or one scope per step",
        )
    return VariableConfig.whole(config.variable, replace(synchronizer, destination=server), config.shards[0].compressor)


def _units(graph: TrainingGraph) -> list[tuple[Variable, ...]]:
    """The trainable variables in sets that are updated together."""
    units: dict[str, list[Variable]] = {}
    for variable in graph.trainable:
        units.setdefault(min((*variable.coupled, variable.name)), []).append(variable)
    return [tuple(unit) for unit in units.values()]


def _members(unit: tuple[Variable, ...], graph: TrainingGraph) -> list[str]:
    """A unit's variables and their slots."""
    names = {variable.name for variable in unit}
    return [v.name for v in graph.variables if v.name in names or names & set(v.owners)]


def _served(strategy: Strategy, graph: TrainingGraph) -> Mapping[str, str]:
    """By variable or slot that this step gives to a server, the server."""
    served = {}
    for unit in _units(graph):
        synchronizer = strategy.config(unit[0].name).synchronizer
        if isinstance(synchronizer, PSSynchronizer):
            served.update(dict.fromkeys(_members(unit, graph), synchronizer.destination))
    return served
