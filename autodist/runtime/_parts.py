"""What is known of the program's variables: in which parts the session holds them, and whose these are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autodist.graph import Variable
from autodist.kernels import DistributedGraph
from autodist.runtime._arrays import aligned_empty

__all__ = ["Copy", "Part", "assembled", "is_held_here", "whole_name"]


@dataclass
class Part:
    """A variable of the session, and which part of the program's variable it is."""

    name: str
    index: tuple[slice, ...]
    is_mine: bool
    """Whether this worker writes its value to the session: it lives here."""
    is_shared: bool
    """Whether all workers read it from one place."""


@dataclass
class Copy:
    """What is known of one of the program's variables."""

    handle: Any
    dtype: Any
    shape: tuple[int, ...]
    parts: list[Part]
    written_by_steps: bool
    is_released: bool = False
    is_borrowed: bool = False
    """Whether the program's copy is the session's own memory."""
    version: int = 0
    is_frozen: bool = False
    """Whether it stands for a value that nothing writes, which both places hold in one memory."""

    @property
    def size_bytes(self) -> int:
        return int(self.dtype.size * prod(self.shape))

    @property
    def is_mine(self) -> bool:
        return all(part.is_mine for part in self.parts)

    @property
    def is_shared(self) -> bool:
        return any(part.is_shared for part in self.parts)


def whole_name(variable: Variable) -> str:
    """The program's variable that a variable of a step is, or is a part of."""
    return variable.name if variable.piece is None else variable.piece.whole


def is_held_here(graph: DistributedGraph, name: str) -> bool:
    """Whether a variable of a step lives in this worker's session."""
    return graph.layout.rank_of_tf(graph.homes[name]) == graph.layout.rank


def assembled(copy: Copy, values: Iterator[tuple[str, np.ndarray]]) -> np.ndarray:
    """The value of one of the program's variables; takes those of its parts, one after another."""
    if len(copy.parts) == 1:
        return next(values)[1]
    whole: np.ndarray | None = None
    for part in copy.parts:
        name, value = next(values)
        assert name == part.name, (name, part.name)
        whole = aligned_empty(copy.shape, value.dtype) if whole is None else whole
        whole[part.index] = value
        del value  # a part at a time beside the whole
    assert whole is not None
    return whole
