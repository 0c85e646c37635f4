"""What each choice of each unit sends, computed once, so that proposals are put together by indexing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autodist.search._configs import strategies_of_choices
from autodist.simulator import Ints, ShardTable, tabulate

if TYPE_CHECKING:
    from autodist.search._space import Space

__all__ = ["Catalogue", "spans"]


@dataclass(frozen=True)
class Catalogue:
    """All choices of a space, one after the other, with the shards of each.

    Attributes:
        shards: Of all choices, without servers and groups; ``strategy`` is the choice.
        begins: By choice, its first shard; one more for the end.
        first: By unit, its first choice; one more for the end.
        factors: By choice, numbers of its partition, of its kind of synchronization, and of all else.

    """

    shards: ShardTable
    begins: Ints
    first: Ints
    factors: Ints

    @cached_property
    def counts(self) -> Ints:
        """By choice, how many shards it has."""
        counts: Ints = np.diff(self.begins)
        return counts

    @classmethod
    def of(cls, space: Space) -> Catalogue:
        """The catalogue of a space."""
        first = np.cumsum([0, *(len(unit.choices) for unit in space.units)]).astype(np.int32)
        numbers, strategies = zip(*strategies_of_choices(space.units, space.domain.spec), strict=True)
        table = tabulate(strategies, space.domain)
        choice = first[space.unit_of[table.variable]] + np.array(numbers, np.int32)[table.strategy]
        order = np.argsort(choice, kind="stable")
        shards = table.take(order).replaced(strategy=choice[order].astype(np.int32))
        begins = np.searchsorted(shards.strategy, np.arange(first[-1] + 1)).astype(np.int32)
        return cls(shards, begins, first, _factors(space))


def _factors(space: Space) -> Ints:
    choices = [choice for unit in space.units for choice in unit.choices]
    plain = [dataclasses.replace(c, partition=None, synchronizer="PS", communicator=None) for c in choices]
    rows: list[list[object]] = [
        [choice.partition, (choice.synchronizer, choice.communicator), rest]
        for choice, rest in zip(choices, plain, strict=True)
    ]
    numbers: dict[object, int] = {}
    return np.array([[numbers.setdefault(value, len(numbers)) for value in row] for row in rows], np.int32)


def spans(begins: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """All numbers of spans, one after the other.

    Example:
        >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]

    """
    ends = np.cumsum(counts)
    numbers = np.arange(ends[-1] if len(ends) else 0, dtype=np.intp)
    found: npt.NDArray[np.intp] = numbers + np.repeat(begins - (ends - counts), counts)
    return found
