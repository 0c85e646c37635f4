"""Shards: which part of a variable each of them is (thesis 7.3.2, partitioning)."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from math import prod

Partition = tuple[tuple[int, ...] | int, ...]


@dataclass(frozen=True)
class ShardSlice:
    """The part of a variable that one shard is.

    Attributes:
        begin: Per dim of the variable, where the shard begins.
        size: Per dim, how much of it the shard has: the shard's shape.

    Example:
        >>> ShardSlice((2, 0), (2, 3)).slices
        (slice(2, 4, None), slice(0, 3, None))
    """

    begin: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The shard as an index into an array of the whole variable."""
        return tuple(slice(begin, begin + size) for begin, size in zip(self.begin, self.size, strict=True))

    @property
    def num_elements(self) -> int:
        """Number of elements of the shard."""
        return prod(self.size)


def shard_slices(partition: Partition | None, shape: tuple[int, ...]) -> tuple[ShardSlice, ...]:
    """The shards of a variable in row-major order, as ``VariableConfig.shards`` has them.

    Args:
        partition: Per dim a number of even parts or their sizes; None is one shard, the whole variable. A dim that does
            not divide evenly is split as by ``numpy.array_split``: its first parts have one element more.
        shape: The variable's shape.

    Raises:
        ValueError: The partition does not fit the shape; ``verify`` says the same in a user's words.

    Example:
        >>> [shard.size for shard in shard_slices((2, (1, 3)), (5, 4))]
        [(3, 1), (3, 3), (2, 1), (2, 3)]
    """
    if partition is None:
        return (ShardSlice((0,) * len(shape), shape),)
    if len(partition) != len(shape):
        raise ValueError(f"the partition {partition} has {len(partition)} entries for {len(shape)} dims")
    return _cut(partition, shape)


@functools.lru_cache(maxsize=1 << 14)
def _cut(partition: Partition, shape: tuple[int, ...]) -> tuple[ShardSlice, ...]:
    """The shards of a partition with an entry for each dim; cached, because a search asks several times for each."""
    parts = [_parts(entry, dim) for entry, dim in zip(partition, shape, strict=True)]
    return tuple(
        ShardSlice(tuple(begin for begin, _ in corner), tuple(size for _, size in corner))
        for corner in itertools.product(*parts)
    )


def num_shards(partition: Partition | None) -> int:
    """Number of shards that a partition makes.

    Example:
        >>> num_shards((2, (1, 3), 1))
        4
    """
    return prod(entry if isinstance(entry, int) else len(entry) for entry in partition or ())


def _parts(entry: tuple[int, ...] | int, dim: int) -> list[tuple[int, int]]:
    """Begin and size of each part of one dim."""
    if isinstance(entry, int):
        if not 1 <= entry <= dim:
            raise ValueError(f"{entry} parts of a dim of {dim} elements")
        smallest, larger = divmod(dim, entry)
        sizes = (smallest + 1,) * larger + (smallest,) * (entry - larger)
    else:
        sizes = entry
    if min(sizes, default=0) < 1 or sum(sizes) != dim:
        raise ValueError(f"parts of {sizes} elements of a dim of {dim} elements")
    begins = itertools.accumulate(sizes[:-1], initial=0)
    return list(zip(begins, sizes, strict=True))
