"""Tables for searches: bytes between all layouts in which each axis of the mesh has one state.

A layout is a tuple of states, one per axis of the mesh: the dim that the axis cuts, `WHOLE` if it cuts none, or
`PARTIAL` if devices along it hold terms of a sum. Axes that cut one dim do so in the order of the mesh.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodist.cost.resharding._layout_boxes import Places, pulled_matrix

WHOLE = -1
PARTIAL = -2
COPIES = -3
"""The state of a tensor with several copies, each cut along another dim; only on a mesh of one axis (Spartan, 2.4)."""

States: TypeAlias = tuple[int, ...]
"""Per axis of the mesh, the dim that it cuts, or `WHOLE`, or `PARTIAL`."""

_MOST_STOPS = 2000
"""The most layouts for which conversions over an intermediate layout are priced, and not only direct ones."""


class AxisTiles(enum.Enum):
    """The elements of a dim that a cut by an axis gives a device."""

    BOXES = "boxes"
    """Contiguous elements, as in execution."""
    DIGITS = "digits"
    """Those with one digit of their place: each axis has its own digit, whatever the others cut (SoyBean, theorem 2:
    what a cut costs does not depend on the order of the cuts)."""


@dataclass(frozen=True)
class ConversionShares:
    """The moves of conversions between layouts, as multiples of a tensor's size.

    Attributes:
        layouts: All layouts.
        direct: By numbers of source and target, the amount that moves if each device fetches the elements that it
            lacks; infinite where terms of a sum would have to be made.
    """

    layouts: tuple[States, ...]
    direct: NDArray[np.float64]

    @cached_property
    def number(self) -> dict[States, int]:
        """The place of each layout in the tables."""
        return {states: number for number, states in enumerate(self.layouts)}

    @cached_property
    def moved(self) -> NDArray[np.float64]:
        """As `direct`, with the intermediate layout that saves the most."""
        best = self.direct.copy()
        if len(self.layouts) <= _MOST_STOPS:
            for stop in range(len(self.layouts)):
                np.minimum(best, self.direct[:, stop, None] + self.direct[None, stop], out=best)
        return best

    def between(self, source: States, target: States) -> float:
        """The move of one conversion."""
        return float(self.moved[self.number[source], self.number[target]])


@cache
def shares_between(lengths: tuple[int, ...], rank: int, tiles: AxisTiles = AxisTiles.BOXES) -> ConversionShares:
    """The moves of conversions of a tensor of this many dims, on a mesh whose axes have these lengths.

    Example:
        >>> shares = shares_between((2, 2), 2)
        >>> [shares.between((0, 0), target) for target in [(1, 1), (-1, -1), (-1, 1)]]
        [0.75, 3.0, 1.5]
    """
    layouts = tuple(itertools.product(range(PARTIAL, rank), repeat=len(lengths)))
    if tiles is AxisTiles.DIGITS:
        return ConversionShares(layouts, digit_shares(layouts, layouts, lengths))
    named = {f"a{axis}": length for axis, length in enumerate(lengths)}
    places = [places_of(states, tuple(named), rank) for states in layouts]
    shape = (prod(lengths),) * rank
    return ConversionShares(layouts, pulled_matrix(places, places, shape, named) / prod(shape))


@cache
def shares_with_copies(length: int, rank: int) -> ConversionShares:
    """The moves on one axis, where a tensor may have a copy for each dim.

    Example:
        >>> shares = shares_with_copies(4, 2)
        >>> [shares.between((COPIES,), (state,)) for state in (0, 1, WHOLE)], shares.between((0,), (COPIES,))
        ([0.0, 0.0, 3.0], 0.75)
    """
    plain = shares_between((length,), rank)
    others = (rank - 1) * (1 - 1 / length)
    making = {PARTIAL: length - 1 + others, WHOLE: 0.0}
    taking = {PARTIAL: inf, WHOLE: length - 1.0}
    count = len(plain.layouts)
    direct = np.zeros((count + 1, count + 1))
    direct[:count, :count] = plain.direct
    direct[:count, count] = [making.get(state, others) for (state,) in plain.layouts]
    direct[count, :count] = [taking.get(state, 0.0) for (state,) in plain.layouts]
    return ConversionShares((*plain.layouts, (COPIES,)), direct)


def places_of(states: States, axes: tuple[str, ...], rank: int) -> Places:
    """A layout by the names of axes.

    Example:
        >>> places_of((0, -1, 0), ("a", "b", "c"), 2)
        Places(dims=(('a', 'c'), ()), partial=())
    """
    named = list(zip(axes, states, strict=True))
    dims = tuple(tuple(axis for axis, state in named if state == dim) for dim in range(rank))
    return Places(dims, tuple(axis for axis, state in named if state == PARTIAL))


def digit_shares(
    sources: tuple[States, ...], targets: tuple[States, ...], lengths: tuple[int, ...]
) -> NDArray[np.float64]:
    """The moves of direct conversions if each axis cuts its own digit: the difference of two products over axes."""
    have, need = np.array(sources)[:, None], np.array(targets)[None]
    needed, owned = np.ones(have.shape[:1] + need.shape[1:2]), np.ones(have.shape[:1] + need.shape[1:2])
    for axis, length in enumerate(lengths):
        s, t = have[..., axis], need[..., axis]
        part, held = np.where(t < 0, 1.0, 1 / length), np.where(s < 0, 1.0, 1 / length)
        terms = np.where((s == PARTIAL) & (t != PARTIAL), float(length), 1.0)
        needed *= np.where((t == PARTIAL) & (s != PARTIAL), inf, part * terms)
        owned *= np.where(s == t, held, part * held)
    shares: NDArray[np.float64] = prod(lengths) * (needed - owned)
    return shares
