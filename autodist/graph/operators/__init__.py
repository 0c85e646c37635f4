"""What operators mean, said once: index expressions, and what follows from them."""

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Affine,
    Change,
    Elements,
    Expression,
    Kind,
    Lengths,
    Linearity,
    Operator,
    Passes,
    Reducer,
    Signature,
)
from autodist.graph.operators._elementwise import pointwise
from autodist.graph.operators._regions import Cut, Tile, cuts, points, region, span, tiles
from autodist.graph.operators._registry import (
    ENTRY_POINT_GROUP,
    OPERATORS,
    expression_of,
    operator,
    operators,
    signature_of,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "OPERATORS",
    "WHOLE",
    "Access",
    "Affine",
    "Change",
    "Cut",
    "Elements",
    "Expression",
    "Kind",
    "Lengths",
    "Linearity",
    "Operator",
    "Passes",
    "Reducer",
    "Signature",
    "Tile",
    "cuts",
    "expression_of",
    "operator",
    "operators",
    "points",
    "pointwise",
    "region",
    "signature_of",
    "span",
    "tiles",
]
