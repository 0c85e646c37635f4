"""Picking some entries of a gradient and putting them back, for compressors that send only these."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import NodeList

_MAX_ENTRIES = 2**31 - 1
_ROUND_OFF = 1e-9


def ratio_mistakes(ratio: object) -> list[str]:
    """The mistake in a ratio, as a list of one line; empty if it is right."""
    good = isinstance(ratio, float | int) and not isinstance(ratio, bool) and 0 < ratio <= 1
    return [] if good else [f"`ratio` is {ratio!r}, allowed: a number above 0 and up to 1"]


def count(shape: Sequence[int], ratio: float) -> int:
    """How many entries are sent.

    Example:
        >>> count([10, 10], 0.07), count([10, 10], 0.001), count([], 1)
        (7, 1, 1)
    """
    entries = prod(shape)
    return min(entries, max(1, ceil(ratio * entries * (1 - _ROUND_OFF))))


def refusal(shape: Sequence[int]) -> str | None:
    """Why there are too many entries; None if there are not."""
    if prod(shape) > _MAX_ENTRIES:
        return f"it has {prod(shape)} entries, and positions are 31 bits: partition the variable"
    return None


def largest(nodes: NodeList, name: str, sizes: str, number: int, dtype: str) -> str:
    """The positions of the largest entries of a vector without negative ones; NaN counts as the largest."""
    finite = nodes.add("IsFinite", f"{name}/finite", [sizes], T=dtype)
    infinite = nodes.constant(f"{name}/infinite", float("inf"), dtype)
    ordered = nodes.add("SelectV2", f"{name}/ordered", [finite, sizes, infinite], T=dtype)
    k = nodes.constant(f"{name}/k", number, "int32")
    nodes.add("TopKV2", name, [ordered, k], T=dtype, Tk="int32", index_type="int32", sorted=False)
    return f"{name}:1"


def pick(nodes: NodeList, name: str, vector: str, indices: str, dtype: str) -> str:
    """Entries of a vector by their positions."""
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    return nodes.add(
        "GatherV2", name, [vector, indices, dim], Tparams=dtype, Tindices="int32", Taxis="int32", batch_dims=0
    )


def spread(nodes: NodeList, name: str, values: str, indices: str, shape: Sequence[int], dtype: str) -> str:
    """A tensor that is zero but for some entries; those of one position are added."""
    size = nodes.constant(f"{name}/size", [prod(shape)], "int32")
    column = nodes.reshape(f"{name}/column", indices, [-1, 1], "int32")
    updates = nodes.reshape(f"{name}/updates", values, [-1], dtype)
    flat = nodes.add("ScatterNd", f"{name}/flat", [column, updates, size], T=dtype, Tindices="int32")
    return nodes.reshape(name, flat, list(shape), dtype)
