"""The program's variables: in which parts the session holds them, and which workers have these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autodist.kernels import DistributedGraph
from autodist.runtime.data import FILED_VALUES, aligned_copy
from autodist.runtime.state._eager_variables import assign_eager, read_eager, release_eager
from autodist.runtime.state._lost_values import LOST_VALUES

_RELEASE_FROM_BYTES = 64 * 1024  # below, the bookkeeping costs more than the memory


@dataclass
class SessionVariable:
    """A variable of the session, and which part of the program's variable it is."""

    name: str
    index: tuple[slice, ...]
    rank: int
    """The worker in whose session it lives; this one, where each has its own."""
    is_mine: bool
    """Whether this worker writes its value to the session: it lives here."""
    is_shared: bool
    """Whether all workers read it from one place."""


@dataclass
class ProgramVariable:
    """One of the program's variables, and its parts in the session."""

    handle: Any
    dtype: Any
    shape: tuple[int, ...]
    parts: list[SessionVariable]
    written_by_steps: bool
    is_released: bool = False
    is_borrowed: bool = False
    """Whether the program's copy is the session's own memory."""
    version: int = 0
    is_frozen: bool = False
    """Whether it is a value that nothing writes, which both places hold in one memory."""

    @property
    def size_bytes(self) -> int:
        return int(self.dtype.size * prod(self.shape))

    @property
    def is_mine(self) -> bool:
        return all(part.is_mine for part in self.parts)

    @property
    def is_shared(self) -> bool:
        return any(part.is_shared for part in self.parts)

    @property
    def holders(self) -> tuple[int, ...]:
        """The workers in whose sessions its parts live."""
        return tuple(sorted({part.rank for part in self.parts}))

    # The program's own

    def value(self) -> np.ndarray:
        """Its values, in its own memory.

        Raises:
            WorkerFailed: It is lost.
        """
        LOST_VALUES.check(self.handle)
        return read_eager(self.handle, self.dtype)

    def assign(self, value: np.ndarray) -> None:
        """Have it hold a value, in the value's memory if it may be."""
        with LOST_VALUES.assigning(self.handle):
            assign_eager(self.handle, self.dtype, value)

    def own(self) -> None:
        """Give it memory of its own, in which the program may write, if it has the session's."""
        if self.is_borrowed:
            self.assign(aligned_copy(self.value()))
            self.is_borrowed = False

    def release(self) -> None:
        """Free its memory, if it is large."""
        if self.size_bytes < _RELEASE_FROM_BYTES or self.is_released or self.is_frozen:
            return
        release_eager(self.handle, self.dtype)
        self.is_released = True
        self.is_borrowed = False


def holder(graph: DistributedGraph, name: str) -> int:
    """The worker in whose session a variable of a step lives; this one, where each has its own."""
    return graph.layout.rank_of_tf(graph.placement[name])


def assembled(copy: ProgramVariable, values: Iterator[tuple[str, np.ndarray]]) -> np.ndarray:
    """The value of one of the program's variables; takes those of its parts, one after another."""
    if len(copy.parts) == 1:
        return next(values)[1]
    whole: np.ndarray | None = None
    for part in copy.parts:
        name, value = next(values)
        assert name == part.name, (name, part.name)
        whole = FILED_VALUES.empty(copy.shape, value.dtype) if whole is None else whole
        whole[part.index] = value
        del value  # a part at a time alongside the whole
    assert whole is not None
    FILED_VALUES.let_go(whole)
    return whole


def one_at_a_time(read: Callable[[str], np.ndarray]) -> Callable[[str], np.ndarray]:
    """Reads as `read` does; each value is used up before the next one is asked for."""
    last: list[np.ndarray] = []

    def read_next(name: str) -> np.ndarray:
        if last:
            FILED_VALUES.let_go(last.pop())
        last.append(read(name))
        return last[0]

    return read_next
