"""Carriers: they move bytes between workers, each in one file with all that other code asks of it.

>>> get("tcp").is_direct, get("collective").fits_servers
(True, False)
"""

from autodist.carriers._base import Board, Carrier, CollectivePlace, Load, Process, WorkerPlace
from autodist.carriers._carrier_registry import (
    ENTRY_POINT_GROUP,
    FORMER,
    CarrierName,
    carrier_of_groups,
    carrier_of_servers,
    carriers,
    find,
    get,
    installed_communicators,
    names,
    names_of,
    one_of,
    optional,
)
from autodist.carriers._collective import Collective
from autodist.carriers._communicator import JOINED_BYTES, Communicator
from autodist.carriers._horovod import Horovod
from autodist.carriers._scatter import Passed, Scattered, rows_of
from autodist.carriers._tcp import Tcp
from autodist.carriers._widened import Widened
from autodist.cost import Links, direct_gather, direct_reduce, ring_gather, ring_reduce

__all__ = [
    "ENTRY_POINT_GROUP",
    "FORMER",
    "JOINED_BYTES",
    "Board",
    "Carrier",
    "CarrierName",
    "Collective",
    "CollectivePlace",
    "Communicator",
    "Horovod",
    "Links",
    "Load",
    "Passed",
    "Process",
    "Scattered",
    "Tcp",
    "Widened",
    "WorkerPlace",
    "carrier_of_groups",
    "carrier_of_servers",
    "carriers",
    "direct_gather",
    "direct_reduce",
    "find",
    "get",
    "installed_communicators",
    "names",
    "names_of",
    "one_of",
    "optional",
    "ring_gather",
    "ring_reduce",
    "rows_of",
]
