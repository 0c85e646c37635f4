"""Which variables a builder's compressor is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.strategies._encoders import encoder_of

if TYPE_CHECKING:
    from autodist.graph import Variable

_WIDE = ("float32", "float64")


def encoder(variable: Variable, compressor: str | None, *, served: bool = False) -> str | None:
    """The given compressor if it can encode the variable's gradients, else none.

    Gradients of a shape or dtype that it does not take travel as they are, numbers of 16 bits for one. So do sparse
    ones, except compressors that encode their values.

    Args:
        variable: The variable whose gradients are encoded.
        compressor: Its text.
        served: Leave out what servers don't take either: messages in several rounds, as PowerSGD's.
    """
    if compressor is None:
        return None
    found = encoder_of(compressor)
    if served and found.rounds(variable.shape, variable.dtype) > 1:
        return None
    if variable.is_sparse:
        return compressor if found.encodes_slices and variable.dtype in _WIDE else None
    return None if found.refusal(variable.shape, variable.dtype) or variable.dtype not in _WIDE else compressor
