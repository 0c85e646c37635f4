"""Collectives of AutoDist's own: over one TCP connection for each pair of workers, by a library in C++.

An all-reduce is divided among the workers, by what their links carry, and flows piece by piece: while some pieces of a
gradient are still on their way out, the sums of others come back. The library's operations run inside TensorFlow's
graph, one for each gradient, without a copy in between. On slow links floats are encoded, without loss.
docs/design/0024 says why, and how fast it is.

Importing this package imports no TensorFlow.
"""

from autodist.transport._coding import CODED_SHARE, LEAST_CODED_BYTES, is_coded
from autodist.transport._http_server import HttpServer
from autodist.transport._library import OP_PREFIX, connect, disconnect, is_built, refuse, register, withdraw
from autodist.transport._machine_addresses import ips_of, source_towards
from autodist.transport._peer_handshake import Connection
from autodist.transport._rejected_peers import RejectedPeers
from autodist.transport._sockets import Endpoint, connected, listening
from autodist.transport._summing_shares import owner_places, reduction_shares
from autodist.transport._symbols import redirect, restore, slots_of

__all__ = [
    "CODED_SHARE",
    "LEAST_CODED_BYTES",
    "OP_PREFIX",
    "Connection",
    "Endpoint",
    "HttpServer",
    "RejectedPeers",
    "connect",
    "connected",
    "disconnect",
    "ips_of",
    "is_built",
    "is_coded",
    "listening",
    "owner_places",
    "redirect",
    "reduction_shares",
    "refuse",
    "register",
    "restore",
    "slots_of",
    "source_towards",
    "withdraw",
]
