"""Batches: which worker computes which examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import UsageError


class _Given(np.ndarray):
    """An element of ``ad.shard``.

    Attributes:
        note: A hash of the global batch that it comes from; None where there is none.
        rows: How many rows that batch has; None where that is not known.
    """

    note: int | None
    rows: int | None

    def __array_finalize__(self, source: Any) -> None:
        self.note = getattr(source, "note", None)
        self.rows = getattr(source, "rows", None)

    def numpy(self) -> np.ndarray:
        """A plain array, as a ``tf.Tensor`` in its place would give."""
        return np.array(self, subok=False)


class LocalArray(_Given):
    """An array that holds only this worker's part of the global batch."""

    __array_priority__ = 1.0  # what is computed of a part and of something whole is a part


class WholeArray(_Given):
    """An array that is not part of a batch: every replica gets all of it."""


class GlobalArray(_Given):
    """An array of a global batch that replicas may share, of which every worker has all."""


def has_parts(*arguments: Any) -> bool:
    """Whether there are parts of batches among arguments."""
    from tensorflow.python.util import nest

    return any(isinstance(leaf, LocalArray) and leaf.ndim > 0 for leaf in nest.flatten(arguments))


@dataclass(frozen=True)
class WorkerShares:
    """The part of each worker.

    Attributes:
        replicas: Number of replicas of each worker.
        rank: This worker.
    """

    replicas: tuple[int, ...]
    rank: int

    @property
    def is_all(self) -> bool:
        """Whether this worker gets everything."""
        return self.replicas[self.rank] == sum(self.replicas)

    @property
    def is_alone(self) -> bool:
        """Whether there is one replica in all, so that nothing is split."""
        return self.replicas == (1,)

    @property
    def readers(self) -> tuple[int, ...]:
        """The workers that get anything."""
        return tuple(rank for rank, count in enumerate(self.replicas) if count)

    def rows(self, size: Any, minimum: Callable[[Any, Any], Any] = min) -> tuple[Any, Any]:
        """First and one past the last of this worker's rows, in a batch of `size` rows."""
        first = sum(self.replicas[: self.rank])
        return part_of(size, sum(self.replicas), first, first + self.replicas[self.rank], minimum)


@dataclass(frozen=True)
class BatchSplit:
    """Where the examples of this worker's replicas lie in the arrays that the step was given.

    Attributes:
        ranges: Per local replica, first row and one past the last; empty for a replica without examples.
        total: Size of the global batch, None where only all workers together know it.
    """

    ranges: tuple[tuple[int, int], ...]
    total: int | None

    @property
    def rows(self) -> list[float]:
        """Examples of each local replica."""
        return [float(stop - start) for start, stop in self.ranges]


def split_global(size: int, num_replicas: int, first_replica: int, num_local: int) -> BatchSplit:
    """This worker's part of a batch that every worker holds whole.

    Example:
        >>> split_global(size=7, num_replicas=3, first_replica=1, num_local=2).ranges
        ((3, 5), (5, 7))
    """
    replicas = range(first_replica, first_replica + num_local)
    return BatchSplit(tuple(part_of(size, num_replicas, k, k + 1) for k in replicas), size)


def split_local(size: int, num_local: int) -> BatchSplit:
    """The parts of a batch that only this worker holds."""
    return BatchSplit(tuple(part_of(size, num_local, k, k + 1) for k in range(num_local)), None)


def part_of(size: Any, parts: int, first: int, stop: int, minimum: Callable[[Any, Any], Any] = min) -> tuple[Any, Any]:
    """First and one past the last row of the parts `first` to `stop` - 1, of `size` rows in this many parts.

    The first parts get one row more where it does not come out even.

    Args:
        size: Rows; an integer, or a tensor if `minimum` takes tensors.
        parts: Into how many parts they go.
        first: The first part wanted.
        stop: One past the last.
        minimum: The smaller of two values.

    Example:
        >>> part_of(10, parts=4, first=1, stop=3)
        (3, 8)
    """
    base, extra = size // parts, size % parts
    return first * base + minimum(first, extra), stop * base + minimum(stop, extra)


def batch_size(arrays: Sequence[Any], names: Sequence[str]) -> int:
    """The common dim 0 of those array arguments of a step that are split over the replicas.

    Raises:
        UsageError: They differ, or there is none.
    """
    sizes = {name: array.shape[0] for name, array in zip(names, arrays, strict=True)}
    if not sizes:
        raise UsageError(
            "the step was called without any array, there is no batch to split",
            hint="pass the batch as an argument of the step",
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise UsageError(
            f"the step's arguments differ in dim 0, which is the batch for all of these: {listed}",
            hint="an argument counts as a part of the batch if it has the batch's rows in the first call; keep what is "
            "not split over the replicas in a `tf.Variable` or a `tf.constant` that the step uses",
        )
    return int(next(iter(sizes.values())))
