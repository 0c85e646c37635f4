"""Costs, one formula each: bytes over links; `autodist.cost.operations` has those of a graph.

The package does not depend on strategies: strategies, explanations, simulators and searches compute with it.

>>> ring_reduce(100.0, ["a", "b"])
{('a', 'b'): 100.0, ('b', 'a'): 100.0}
"""

from autodist.cost._host_shares import Share, shares_of
from autodist.cost._link_bytes import (
    Links,
    added,
    direct_gather,
    direct_reduce,
    direct_share,
    ring_gather,
    ring_reduce,
    ring_share,
)
from autodist.cost._scheme_floats import (
    broadcast_floats,
    server_floats,
)
from autodist.cost._served_bytes import Served, fetched_bytes, pushed_bytes
from autodist.cost._step_traffic import Flow, Traffic

__all__ = [
    "Flow",
    "Links",
    "Served",
    "Share",
    "Traffic",
    "added",
    "broadcast_floats",
    "direct_gather",
    "direct_reduce",
    "direct_share",
    "fetched_bytes",
    "pushed_bytes",
    "ring_gather",
    "ring_reduce",
    "ring_share",
    "server_floats",
    "shares_of",
]
