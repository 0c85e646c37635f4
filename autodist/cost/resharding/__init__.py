"""The exact bytes of converting a tensor from one layout on a mesh to another."""

from autodist.cost.resharding._layout_boxes import Places, pulled_elements
from autodist.cost.resharding._state_shares import (
    COPIES,
    PARTIAL,
    WHOLE,
    AxisTiles,
    ConversionShares,
    digit_shares,
    places_of,
    shares_between,
    shares_with_copies,
)

__all__ = [
    "COPIES",
    "PARTIAL",
    "WHOLE",
    "AxisTiles",
    "ConversionShares",
    "Places",
    "digit_shares",
    "places_of",
    "pulled_elements",
    "shares_between",
    "shares_with_copies",
]
