"""The operators' treatment of the batch: where its dim goes, and whether examples stay apart."""

from autodist.graph.batch._follow import Follower
from autodist.graph.batch._picking import picked_beyond, turns
from autodist.graph.batch._rows import (
    APART,
    BY,
    BY_REPLICA,
    RETURNED,
    SCALING_OF,
    SYNCHRONIZED,
    Batch,
    Kind,
    Rows,
    Size,
    Value,
)
from autodist.graph.batch._sizes import EntriesOf
from autodist.graph.batch._table import RULES

__all__ = [
    "APART",
    "BY",
    "BY_REPLICA",
    "RETURNED",
    "RULES",
    "SCALING_OF",
    "SYNCHRONIZED",
    "Batch",
    "EntriesOf",
    "Follower",
    "Kind",
    "Rows",
    "Size",
    "Value",
    "picked_beyond",
    "turns",
]
