"""The layouts that each tensor may have."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from autodist.cost.resharding import COPIES, PARTIAL, WHOLE
from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseTensor, is_cuttable

States: TypeAlias = tuple[int, ...]

SMALL_ELEMENTS = 1024
"""Tensors of at most this many elements are small: under every setting they may be whole on every device."""


class Replicate(enum.Enum):
    """Which tensors may be whole on every device."""

    NEVER = "never"
    """None that can be cut, except small ones (Tofu)."""
    FREE = "free"
    """All (SoyBean)."""


class Domains:
    """Layouts by tensor.

    Args:
        graph: The graph.
        lengths: Lengths of the axes of the mesh.
        replicate: Which tensors may be whole.
        fixed: By tensor, the layouts that are allowed; those of the others are free.
        copies: Whether tensors may be there several times, cut along different dims; on one axis only.
    """

    def __init__(
        self,
        graph: CoarseGraph,
        lengths: tuple[int, ...],
        replicate: Replicate,
        fixed: Mapping[int, tuple[States, ...]] = MappingProxyType({}),
        *,
        copies: bool = False,
    ) -> None:
        self._copies = copies and len(lengths) == 1
        self._graph = graph
        self._lengths = lengths
        self._replicate = replicate
        self._fixed = fixed

    def every(self) -> list[tuple[States, ...]]:
        """All layouts of each tensor."""
        axes = len(self._lengths)
        return [self._kept(t, itertools.product(self._states(t), repeat=axes)) for t in self._places()]

    def after(self, layouts: Iterable[States]) -> list[tuple[States, ...]]:
        """The layouts in which one more axis cuts what is cut along the first axes already."""
        return [
            self._kept(t, [(*states, state) for state in self._states(t)])
            for t, states in zip(self._places(), layouts, strict=True)
        ]

    def along(self, axis: int, layouts: Iterable[States]) -> list[tuple[States, ...]]:
        """By tensor, the layouts that differ from the given one along one axis only."""
        return [
            self._kept(t, [(*states[:axis], state, *states[axis + 1 :]) for state in self._states(t)])
            for t, states in zip(self._places(), layouts, strict=True)
        ]

    def near(self, layouts: Iterable[States]) -> list[tuple[States, ...]]:
        """By tensor, the layouts that differ from the given one along any one axis, or in the order of axes."""
        found = []
        for t, states in zip(self._places(), layouts, strict=True):
            other = [
                (*states[:axis], state, *states[axis + 1 :]) for axis in range(len(states)) for state in self._states(t)
            ]
            found.append(self._kept(t, dict.fromkeys((states, *other, *itertools.permutations(states)))))
        return found

    def _places(self) -> range:
        return range(len(self._graph.tensors))

    def _states(self, place: int) -> tuple[int, ...]:
        partial = (PARTIAL,) if self._graph.tensors[place].may_be_partial else ()
        copies = (COPIES,) if self._copies and len(self._graph.dims[place]) > 1 else ()
        return (*self._graph.dims[place], WHOLE, *partial, *copies)

    def _kept(self, place: int, layouts: Iterable[States]) -> tuple[States, ...]:
        tensor, axes = self._graph.tensors[place], None
        found = [states for states in layouts if is_fair(self._graph, place, states, self._lengths)]
        if place in self._fixed:
            axes = len(found[0])
            allowed = {states[:axes] for states in self._fixed[place]}
            return tuple(states for states in found if states in allowed) or tuple(sorted(allowed))
        if self._replicate is Replicate.FREE or prod(tensor.shape) <= SMALL_ELEMENTS:
            return tuple(found)
        cut = [states for states in found if WHOLE not in states]
        if any(PARTIAL not in states for states in cut):
            return tuple(cut)
        fewest = min(states.count(WHOLE) for states in found if PARTIAL not in states)
        return tuple(states for states in found if states.count(WHOLE) <= fewest)


def is_fair(graph: CoarseGraph, place: int, states: States, lengths: tuple[int, ...]) -> bool:
    """Whether all tiles of a tensor are equal, or nearly so where the graph allows that."""
    shape = graph.tensors[place].shape
    parts = [1] * len(shape)
    for state, length in zip(states, lengths, strict=False):
        if state >= 0:
            parts[state] *= length
    unequal = graph.unequal and len(lengths) == 1
    return all(is_cuttable(size, count, unequal=unequal) for size, count in zip(shape, parts, strict=True))


def tile_bytes(tensor: CoarseTensor, states: States, lengths: tuple[int, ...]) -> float:
    """Bytes of one device's part of a tensor.

    Example:
        >>> tile_bytes(CoarseTensor("x", (8, 4)), (0, -1), (4, 2))
        32.0
    """
    if COPIES in states:
        return tensor.size_bytes * len(tensor.shape) / lengths[0]
    cut = prod(length for state, length in zip(states, lengths, strict=False) if state >= 0)
    return tensor.size_bytes / cut
