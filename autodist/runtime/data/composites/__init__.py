"""Ragged and sparse tensors among a call's arguments: they go to replicas as dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodist.runtime.data.composites._base import Composite
from autodist.runtime.data.composites._composite_types import dense_specs, form_of, is_composite, is_composite_spec
from autodist.runtime.data.composites._composite_words import refuse_index_slices, refuse_parts, warn_of_composite
from autodist.runtime.data.composites._padded import PaddedRagged, PaddedSparse
from autodist.runtime.data.composites._whole import Whole

__all__ = [
    "Composite",
    "can_be_padded",
    "dense_specs",
    "form_of",
    "is_composite",
    "is_composite_spec",
    "refuse_index_slices",
    "refuse_parts",
    "taken_apart",
    "warn_of_composite",
]

_PADDED: tuple[type[Composite], ...] = (PaddedRagged, PaddedSparse)


def can_be_padded(leaf: Any) -> bool:
    """Whether replicas can share a ragged or sparse tensor."""
    return any(kind.can_take(leaf) for kind in _PADDED)


def taken_apart(leaf: Any, first: int, *, pads: bool) -> tuple[Composite, list[np.ndarray]]:
    """Return a ragged or sparse tensor as an argument, and the dense arrays that stand for it.

    Args:
        leaf: The tensor, with values.
        first: The position of its first array among the call's.
        pads: Whether it is to be shared by replicas; then :func:`can_be_padded` has to be true.
    """
    kinds = _PADDED if pads else (Whole,)
    return next(kind for kind in kinds if kind.can_take(leaf)).taken_apart(leaf, first)
