"""What operators do with the batch, said once: where its dim goes, and whether examples stay apart."""

from autodist.graph.operators._follow import Follower
from autodist.graph.operators._picking import PICKING, picked_beyond, turns
from autodist.graph.operators._rows import APART, BY, BY_REPLICA, EXTENT_OF, Kind, Rows, Value
from autodist.graph.operators._table import ENDS, PRODUCTS, RULES, SHAPE_OPS

__all__ = [
    "APART",
    "BY",
    "BY_REPLICA",
    "ENDS",
    "EXTENT_OF",
    "PICKING",
    "PRODUCTS",
    "RULES",
    "SHAPE_OPS",
    "Follower",
    "Kind",
    "Rows",
    "Value",
    "picked_beyond",
    "turns",
]
