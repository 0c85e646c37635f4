"""Strategies as numbers in which people can recognize the choices, whose importance is measured."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from autodist.report._cells import common_name, name_pattern
from autodist.simulator import Floats
from autodist.strategies import ShardConfig, Strategy, VariableConfig

_MANY_UNITS = 6
_MOST_BYTES = 0.8

_Column: TypeAlias = "tuple[str, str]"
"""Kind of a choice, and what is chosen."""


@dataclass(frozen=True)
class ChoiceFeatures:
    """The choices of strategies.

    Attributes:
        values: Shape (strategies, columns); columns in which all strategies are alike are left out.
        variables: By column, the name of its variable, or of several with a common name.
        kinds: By column, the kind of choice: ``synchronizer``, ``partition``, ``server`` and so on.
    """

    values: Floats
    variables: tuple[str, ...]
    kinds: tuple[str, ...]


def choice_features(strategies: Sequence[Strategy], sizes: Mapping[str, int]) -> ChoiceFeatures:
    """The choices of strategies for the largest variables, one by one, and for the others together.

    A choice for several variables or shards is the share of their bytes for which it was made; partitions count by
    the logarithm of their shards, groups by that of the bytes that travel together.
    """
    units = _units(sizes)
    cells: dict[tuple[str, _Column], dict[int, float]] = defaultdict(dict)
    for row, strategy in enumerate(strategies):
        groups = _group_bytes(strategy, sizes)
        for unit, members in units.items():
            total = sum(sizes[name] for name in members) or 1
            for column, value in _amounts([strategy.config(name) for name in members], sizes, groups).items():
                cells[unit, column][row] = value / total
    columns = {key: _column(values, len(strategies)) for key, values in cells.items()}
    varied = {key: column for key, column in columns.items() if np.ptp(column) > 1e-9}
    values = np.stack(list(varied.values()), 1) if varied else np.zeros((len(strategies), 0), np.float32)
    return ChoiceFeatures(values, tuple(unit for unit, _ in varied), tuple(column[0] for _, column in varied))


def _column(values: Mapping[int, float], count: int) -> Floats:
    return np.array([values.get(row, 0.0) for row in range(count)], np.float32)


def _units(sizes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """The few largest variables, each alone, or with those that differ by a number where none is large; the others."""
    alone = {name: (name,) for name in sizes}
    largest = sorted(sizes.values(), reverse=True)[:_MANY_UNITS]
    units = alone if sum(largest) >= _MOST_BYTES * sum(sizes.values()) else _by_pattern(sizes)
    order = sorted(units, key=lambda unit: -sum(sizes[name] for name in units[unit]))
    others = tuple(name for unit in order[_MANY_UNITS:] for name in units[unit])
    kept = {unit: units[unit] for unit in order[:_MANY_UNITS]}
    return kept | ({f"{len(others)} others" if len(others) > 1 else others[0]: others} if others else {})


def _by_pattern(names: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name_pattern(name), []).append(name)
    return {common_name(members): tuple(members) for members in alike.values()}


def _group_bytes(strategy: Strategy, sizes: Mapping[str, int]) -> Counter[tuple[str, int]]:
    """By communicator and group, the bytes that travel together."""
    found: Counter[tuple[str, int]] = Counter()
    for config in strategy.variables:
        for shard in config.shards:
            if (group := _group(shard)) is not None:
                found[group] += sizes[config.variable] // len(config.shards)
    return found


def _amounts(
    configs: Sequence[VariableConfig], sizes: Mapping[str, int], groups: Mapping[tuple[str, int], int]
) -> dict[_Column, float]:
    """Bytes times values, by column."""
    found: dict[_Column, float] = defaultdict(float)
    for config in configs:
        weight = sizes[config.variable] / len(config.shards)
        found["partition", "shards"] += sizes[config.variable] * math.log2(len(config.shards))
        for shard in config.shards:
            for column, value in _of_shard(shard, groups):
                found[column] += weight * value
    return found


def _of_shard(shard: ShardConfig, groups: Mapping[tuple[str, int], int]) -> Iterator[tuple[_Column, float]]:
    synchronizer = shard.synchronizer
    yield ("synchronizer", synchronizer.type), 1.0
    if shard.compressor is not None:
        yield ("compressor", shard.compressor), 1.0
    yield from synchronizer.plotted().items()
    if (group := _group(shard)) is not None:
        yield ("group", "bytes"), math.log2(1 + groups[group])


def _group(shard: ShardConfig) -> tuple[str, int] | None:
    """The carrier of the values that travel with a shard, and its number; None if none do."""
    carrier, number = shard.synchronizer.carrier, shard.synchronizer.group_number
    return None if carrier is None or number is None else (carrier, number)
