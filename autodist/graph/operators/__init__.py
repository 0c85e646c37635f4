"""What operators do with the batch, said once: where its dim goes, and whether examples stay apart."""

from autodist.graph.operators._follow import Follower
from autodist.graph.operators._rows import APART, BY, BY_REPLICA, EXTENT_OF, Kind, Rows, Value
from autodist.graph.operators._table import PRODUCTS, RULES, SHAPE_OPS

__all__ = [
    "APART",
    "BY",
    "BY_REPLICA",
    "EXTENT_OF",
    "PRODUCTS",
    "RULES",
    "SHAPE_OPS",
    "Follower",
    "Kind",
    "Rows",
    "Value",
]
