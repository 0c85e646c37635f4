"""Which variables a builder's compressor is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import Variable

__all__ = ["encoder"]

_WIDE = ("float32", "float64")


def encoder(variable: Variable, compressor: str | None) -> str | None:
    """The compressor for a variable: the given one for dense gradients that are wider than 16 bits, else none.

    Sparse gradients are rows and their indices, which travel as they are.
    """
    return None if variable.is_sparse or variable.dtype not in _WIDE else compressor
