"""The bytes of each choice of each unit, computed once, so that proposals are put together by indexing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.simulator import Floats, Ints, ShardTable, tabulate
from autodist.strategies import Choice
from autodist.strategies.synchronizers import words_of

if TYPE_CHECKING:
    from autodist.search.space._space import Space

Rows: TypeAlias = "npt.NDArray[np.intp]"
_LARGE_BYTES = 1 << 18


@dataclass(frozen=True)
class Catalogue:
    """All choices of a space, one after the other, with the shards of each.

    Attributes:
        shards: Shards of all choices, without servers and groups; ``strategy`` is the choice.
        begins: By choice, its first shard; one more for the end.
        first: By unit, its first choice; one more for the end.
        factors: By choice, numbers of its partition, its kind of synchronization, and everything else.
        kinds: By choice, a number for its way of synchronization together with the kind of variable.
        unit_bytes: By unit, the size of its values.
        traits: By unit, what kind of variable it is: 0 if it is sparse, 1 if it is large, 2 if it is small.
    """

    shards: ShardTable
    begins: Ints
    first: Ints
    factors: Ints
    kinds: Ints
    unit_bytes: Floats
    traits: Ints

    @cached_property
    def counts(self) -> Ints:
        """By choice, how many shards it has."""
        counts: Ints = np.diff(self.begins)
        return counts

    @cached_property
    def alike(self) -> list[tuple[Rows, Ints]]:
        """Units whose choices are of the same kinds, one after the other: their numbers, and the kinds."""
        found: dict[tuple[int, ...], list[int]] = {}
        for unit, kinds in enumerate(np.split(self.kinds, self.first[1:-1])):
            found.setdefault(tuple(kinds.tolist()), []).append(unit)
        return [(np.array(units), np.array(kinds, np.int32)) for kinds, units in found.items()]

    @classmethod
    def of(cls, space: Space) -> Catalogue:
        """The catalogue of a space."""
        first = np.cumsum([0, *(len(unit.choices) for unit in space.units)]).astype(np.int32)
        numbers, strategies = zip(*space.single_choices(), strict=True)
        table = tabulate(strategies, space.domain)
        choice = first[space.unit_of[table.variable]] + np.array(numbers, np.int32)[table.strategy]
        order = np.argsort(choice, kind="stable")
        shards = table.take(order).replaced(strategy=choice[order].astype(np.int32))
        begins = np.searchsorted(shards.strategy, np.arange(first[-1] + 1)).astype(np.int32)
        sizes = np.array([sum(v.size_bytes for v in unit.variables) for unit in space.units], np.float32)
        sparse = [any(variable.is_sparse for variable in unit.variables) for unit in space.units]
        traits = np.where(sparse, 0, np.where(sizes >= _LARGE_BYTES, 1, 2)).astype(np.int32)
        return cls(shards, begins, first, _factors(space), _kinds(space, traits), sizes, traits)


def _kinds(space: Space, traits: Ints) -> Ints:
    numbers: dict[object, int] = {}
    found = []
    for unit, trait in zip(space.units, traits.tolist(), strict=True):
        for choice in unit.choices:
            words = frozenset(word for word in words_of(choice) if not word.startswith("partition="))
            found.append(numbers.setdefault((trait, words), len(numbers)))
    return np.array(found, np.int32)


def _factors(space: Space) -> Ints:
    choices = [choice for unit in space.units for choice in unit.choices]
    rest = [
        dataclasses.replace(c, partition=None, synchronizer=Choice().synchronizer, by_shard=(), communicator=None)
        for c in choices
    ]
    rows: list[list[object]] = [
        [choice.partition, (choice.synchronizer, choice.by_shard, choice.communicator), other]
        for choice, other in zip(choices, rest, strict=True)
    ]
    numbers: dict[object, int] = {}
    return np.array([[numbers.setdefault(value, len(numbers)) for value in row] for row in rows], np.int32)


def spans(begins: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """All numbers in spans, one span after the other.

    Example:
        >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    numbers = np.arange(ends[-1] if len(ends) else 0, dtype=np.intp)
    found: npt.NDArray[np.intp] = numbers + np.repeat(begins - (ends - counts), counts)
    return found
