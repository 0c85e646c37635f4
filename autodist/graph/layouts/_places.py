"""The places of a dim that replicas need around their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from autodist.graph.layouts._base import Stretch, bounds_of_part

Bounds: TypeAlias = "tuple[int, int]"
"""The first place and the one after the last."""


def places_within(bounds: Bounds, length: int) -> Iterator[Bounds]:
    """A stretch as bounds within a dim: what goes beyond an end of it continues at the other one.

    Example:
        >>> list(places_within((-1, 3), 10)), list(places_within((8, 12), 10))
        ([(9, 10), (0, 3)], [(8, 10), (0, 2)])
    """
    begin, end = bounds
    while begin < end:
        first = begin % length
        count = min(end - begin, length - first)
        yield first, first + count
        begin += count


def common_places(runs: Iterable[Bounds], other: Bounds) -> list[Bounds]:
    """The places of some runs that are among others."""
    found = ((max(begin, other[0]), min(end, other[1])) for begin, end in runs)
    return [(begin, end) for begin, end in found if begin < end]


def places_from_others(stretches: Sequence[Stretch], replicas: range) -> list[Bounds]:
    """The places that some replicas, one after the other, need and that are not in their own parts.

    Args:
        stretches: What replicas need of a tensor along one dim.
        replicas: Which replicas.

    Returns:
        Runs of places in their order; no place is in two of them.

    Example:
        >>> places_from_others([Stretch(0, 10, ((-1, 6), (4, 10))), Stretch(0, 10, ((0, 7), (5, 10)))], range(0, 1))
        [(5, 7), (9, 10)]
    """
    length, parts = stretches[0].length, len(stretches[0].bounds)
    first, _ = bounds_of_part(length, parts, replicas[0])
    _, last = bounds_of_part(length, parts, replicas[-1])
    needed = _merged(run for one in stretches for r in replicas for run in places_within(one.bounds[r], length))
    return [run for other in ((0, first), (last, length)) for run in common_places(needed, other)]


def _merged(runs: Iterable[Bounds]) -> list[Bounds]:
    found: list[Bounds] = []
    for begin, end in sorted(runs):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def count_from_others(stretches: Sequence[Stretch]) -> int:
    """How many places all replicas get from others.

    Example:
        >>> count_from_others([Stretch(0, 10, ((0, 6), (4, 10)))])
        2
    """
    parts = range(len(stretches[0].bounds))
    return sum(end - begin for r in parts for begin, end in places_from_others(stretches, range(r, r + 1)))


def is_covered(stretch: Stretch, others: Sequence[Stretch]) -> bool:
    """Whether replicas need nothing for a stretch that they don't get for others, along the same dim."""
    parts = range(len(stretch.bounds))
    both = [*others, stretch]
    return all(places_from_others(both, range(r, r + 1)) == places_from_others(others, range(r, r + 1)) for r in parts)
