"""Sums of which each worker gets its own rows, and rows that workers pass to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import NodeList


@dataclass(frozen=True)
class Scattered:
    """The terms of a sum, if each worker gets its own rows of it.

    Attributes:
        tensor: This worker's part of the sum, of all rows.
        firsts: By worker that takes part, the number of its first row: a vector.
        counts: By worker, how many rows it has: a vector.
        dims: Number of dims.
    """

    tensor: str
    firsts: str
    counts: str
    dims: int


@dataclass(frozen=True)
class Passed:
    """Rows that workers pass to each other.

    Attributes:
        rows: This worker's rows for each worker to which it passes some.
        none: No rows, of the same kind.
        counts: By worker that takes part, and by the one to which it passes rows, how many; none to itself.
        sizes: If only the step knows how many these are, their numbers by pair of workers: a vector, with those of the
            first worker to all workers in front. Then `counts` says who passes rows to whom.
    """

    rows: tuple[str, ...]
    none: str
    counts: tuple[tuple[int, ...], ...]
    sizes: str | None = None

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors of this worker's step that it takes to pass rows."""
        return (*self.rows, self.none, *([] if self.sizes is None else [self.sizes]))

    def to(self, source: int) -> tuple[int, ...]:
        """The workers to which one passes rows."""
        return tuple(k for k, count in enumerate(self.counts[source]) if count)

    def by(self, target: int) -> tuple[int, ...]:
        """The workers that pass rows to one."""
        return tuple(k for k, row in enumerate(self.counts) if row[target])


def rows_of(nodes: NodeList, name: str, scattered: Scattered, rank: int, dtype: str, tensor: str | None = None) -> str:
    """The rows that belong to a worker, by its place among the members, in this worker's term or in another tensor."""
    begin = _vector(nodes, f"{name}/begin", scattered.firsts, rank, scattered.dims, 0)
    size = _vector(nodes, f"{name}/size", scattered.counts, rank, scattered.dims, -1)
    return nodes.add("Slice", name, [tensor or scattered.tensor, begin, size], T=dtype, Index="int32")


def _vector(nodes: NodeList, name: str, by_worker: str, rank: int, dims: int, rest: int) -> str:
    """A vector of a worker's entry, followed by one number for each dim after the first."""
    at = nodes.constant(f"{name}/at", [rank], "int32")
    one = nodes.constant(f"{name}/one", [1], "int32")
    entry = nodes.add("Slice", f"{name}/entry", [by_worker, at, one], T="int32", Index="int32")
    if dims == 1:
        return entry
    others = nodes.constant(f"{name}/others", [rest] * (dims - 1), "int32")
    return nodes.concat(name, [entry, others], "int32")
