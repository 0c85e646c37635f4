"""Elements that move from layout to layout, by intersecting the tiles that devices have with those that they need.

A device pulls the elements that it needs and does not have. If devices along an axis hold terms of a sum, it needs
every term of its tile. The count is exact for tiles that are contiguous boxes, in whatever order axes cut a dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class HasPlaces(Protocol):
    """A layout of a tensor on a mesh."""

    @property
    def dims(self) -> tuple[tuple[str, ...], ...]:
        """Per dim, the axes that cut it, the first into the largest parts."""

    @property
    def partial(self) -> tuple[str, ...]:
        """The axes along which devices hold terms of a sum that is the tensor."""


class Places(NamedTuple):
    """A layout with only these two properties."""

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[str, ...] = ()


def pulled_elements(source: HasPlaces, target: HasPlaces, shape: Sequence[int], lengths: Mapping[str, int]) -> float:
    """Elements that all devices together fetch directly; infinite where terms of a sum would have to be made.

    Args:
        source: The layout that the tensor has.
        target: The layout that is needed.
        shape: The tensor's shape. Part k of a dim that can't be cut evenly begins at `size * k // parts`.
        lengths: By axis of the mesh, its length.

    Example:
        >>> rows, columns = Places((("host",), ())), Places(((), ("host",)))
        >>> pulled_elements(rows, columns, (8, 4), {"host": 4})
        24.0
    """
    return float(pulled_matrix([source], [target], shape, lengths)[0, 0])


def pulled_matrix(
    sources: Sequence[HasPlaces], targets: Sequence[HasPlaces], shape: Sequence[int], lengths: Mapping[str, int]
) -> NDArray[np.float64]:
    """By source and target, the elements that devices fetch directly; see :func:`pulled_elements`."""
    axes = list(lengths)
    grid = np.indices(tuple(lengths.values())).reshape(len(axes), -1)  # axis × device
    at = dict(zip(axes, grid, strict=True))
    have, need = (_bounds(layouts, shape, lengths, at) for layouts in (sources, targets))
    common = np.ones((len(sources), len(targets), grid.shape[1]))
    whole = np.ones((len(targets), grid.shape[1]))
    for dim in range(len(shape)):
        first = np.maximum(have[0][:, None, :, dim], need[0][None, :, :, dim])
        last = np.minimum(have[1][:, None, :, dim], need[1][None, :, :, dim])
        common *= np.maximum(last - first, 0)
        whole *= need[1][:, :, dim] - need[0][:, :, dim]
    terms = _terms(sources, targets, lengths)
    fetched: NDArray[np.float64] = whole.sum(-1)[None] * terms - common.sum(-1)
    return fetched


def _terms(
    sources: Sequence[HasPlaces], targets: Sequence[HasPlaces], lengths: Mapping[str, int]
) -> NDArray[np.float64]:
    """By source and target, how many terms of each element a device needs."""
    terms = np.ones((len(sources), len(targets)))
    for axis, length in lengths.items():
        have = np.array([axis in source.partial for source in sources])[:, None]
        need = np.array([axis in target.partial for target in targets])[None]
        terms *= np.where(have, np.where(need, 1.0, float(length)), np.where(need, inf, 1.0))
    return terms


def _bounds(
    layouts: Sequence[HasPlaces],
    shape: Sequence[int],
    lengths: Mapping[str, int],
    at: Mapping[str, NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By layout, device and dim, where the device's tile begins and ends."""
    count = prod(lengths.values())
    first = np.zeros((len(layouts), count, len(shape)), np.int64)
    last = np.zeros_like(first)
    for number, layout in enumerate(layouts):
        for dim, (cutting, size) in enumerate(zip(layout.dims, shape, strict=True)):
            part, parts = np.zeros(count, np.int64), 1
            for axis in cutting:
                part, parts = part * lengths[axis] + at[axis], parts * lengths[axis]
            first[number, :, dim], last[number, :, dim] = size * part // parts, size * (part + 1) // parts
    return first, last
