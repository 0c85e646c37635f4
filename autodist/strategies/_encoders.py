"""Compressors by the texts of strategies, each looked up once."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.compressors import Compressor


@functools.cache
def encoder_of(text: str) -> Compressor:
    """The compressor of a text; looking through installed packages takes longer than all the rest of a builder.

    Raises:
        StrategyError: There is none.
    """
    from autodist import compressors  # NumPy, which `import autodist` need not load

    return compressors.get(text)
