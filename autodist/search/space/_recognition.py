"""Converts strategies of builders, earlier searches or users to proposals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from autodist.search.space._arrangement import numbered
from autodist.search.space._configs import configs_of
from autodist.search.space._proposals import Proposals
from autodist.simulator import Ints
from autodist.strategies import ShardConfig, Synchronizer, VariableConfig

if TYPE_CHECKING:
    from autodist.search.space._catalogue import Catalogue
    from autodist.search.space._space import Space
    from autodist.strategies import Strategy

_Row: TypeAlias = "tuple[list[int], list[int], list[int]]"


def recognize(strategies: Sequence[Strategy], space: Space, catalogue: Catalogue) -> tuple[Proposals, Ints]:
    """The proposals that strategies are, as far as they are in a space: the inverse of :meth:`Proposals.strategy`.

    Strategies that differ only in the numbers of groups, or in the carrier of small state, are the same proposal.

    Args:
        strategies: For the space's graph and cluster.
        space: The space of the proposals.
        catalogue: Catalogue of the space.

    Returns:
        The proposals, and the numbers of their strategies.
    """
    known = _Known(space, catalogue)
    rows = [(number, row) for number, strategy in enumerate(strategies) if (row := known.row(strategy)) is not None]
    choices = np.array([row[0] for _, row in rows], np.int32).reshape(len(rows), len(space.units))
    servers, groups = (np.array([value for _, row in rows for value in row[k]], np.int32) for k in (1, 2))
    found = Proposals.of(choices, catalogue).replaced(server=servers)
    which = np.array([number for number, _ in rows], np.int32)
    return found.replaced(group=numbered(groups, found, space)), which


class _Known:
    """Every choice as configs of variables, in the form in which the space writes them."""

    def __init__(self, space: Space, catalogue: Catalogue) -> None:
        self._space = space
        self._masks = space.masks
        self._replicas = tuple(device.name for device in space.domain.spec.replicas)
        self._ranks = {host.cpu_devices[0].name: rank for rank, host in enumerate(space.domain.spec.hosts)}
        self._chief = next(iter(self._ranks))
        self._choices: list[dict[tuple[VariableConfig, ...], int]] = [
            {
                tuple(configs_of(unit, choice, space.domain.spec)): int(first) + number
                for number, choice in enumerate(unit.choices)
            }
            for unit, first in zip(space.units, catalogue.first, strict=False)
        ]

    def row(self, strategy: Strategy) -> _Row | None:
        """The choices of all units, and of all shards the server and the group; None if it is not in the space."""
        configs = {config.variable: config for config in strategy.variables}
        if strategy.graph.replicas != self._replicas or configs.keys() != self._space.domain.number_of.keys():
            return None
        if strategy.has_servers and not strategy.graph.has_streams:
            return None  # a strategy of an earlier version, whose servers had other times
        choices: list[int] = []
        shards: list[ShardConfig] = []
        for unit, known in zip(self._space.units, self._choices, strict=True):
            own = [configs[variable.name] for variable in unit.variables]
            choice = known.get(tuple(map(self._bare, own)))
            if choice is None or len(set(map(self._servers, own))) > 1:
                return None
            choices.append(choice)
            shards += [shard for config in own for shard in config.shards]
        if not self._masks[:, choices].all(1).any():
            return None  # each choice is possible, but they exclude each other
        return choices, list(map(self._server, shards)), list(_small(map(_group, shards)))

    def _bare(self, config: VariableConfig) -> VariableConfig:
        """A config without servers and groups, which are not part of a choice."""
        shards = (dataclasses.replace(shard, synchronizer=self._without(shard)) for shard in config.shards)
        return dataclasses.replace(config, shards=tuple(shards))

    def _without(self, shard: ShardConfig) -> Synchronizer:
        synchronizer = shard.synchronizer
        if synchronizer.home in self._ranks:
            return synchronizer.at(self._chief)
        return synchronizer if synchronizer.group_number is None else synchronizer.in_group(0)

    def _servers(self, config: VariableConfig) -> tuple[int, ...]:
        return tuple(map(self._server, config.shards))

    def _server(self, shard: ShardConfig) -> int:
        home = shard.synchronizer.home
        return -1 if home is None else self._ranks[home]


def _group(shard: ShardConfig) -> int:
    number = shard.synchronizer.group_number
    return -1 if number is None else number


def _small(groups: Iterator[int]) -> Iterator[int]:
    """The same groups, with numbers up to that of shards."""
    numbers: dict[int, int] = {}
    for group in groups:
        yield numbers.setdefault(group, len(numbers))
