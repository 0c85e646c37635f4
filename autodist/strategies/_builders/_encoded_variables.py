"""Finds the variables that a builder's compressor can encode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.strategies._encoders import encoder_of

if TYPE_CHECKING:
    from autodist.graph import Variable

_WIDE = ("float32", "float64")


def encoder(variable: Variable, compressor: str | None, *, served: bool = False) -> str | None:
    """The given compressor if it can encode the variable's gradients, else none.

    Gradients of a shape or dtype that it does not take, such as 16-bit floats, travel unencoded. So do sparse ones,
    unless the compressor encodes their values.

    Args:
        variable: The variable whose gradients are encoded.
        compressor: Its text.
        served: Whether servers hold the variable: they don't take messages in several rounds, such as PowerSGD's.
    """
    if compressor is None:
        return None
    found = encoder_of(compressor)
    if served and found.rounds(variable.shape, variable.dtype) > 1:
        return None
    if variable.is_sparse:
        return compressor if found.encodes_slices and variable.dtype in _WIDE else None
    return None if found.refusal(variable.shape, variable.dtype) or variable.dtype not in _WIDE else compressor
