"""Which processes may connect to TensorFlow's servers of a run: those of its user here, and its machines.

These servers run code for any process that connects, without asking which it is. So TensorFlow's calls of ``accept``
come here: a connection to a port of the run from anybody else is closed before a byte of it is read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Collection
from typing import Any

from autodist.tcp_table import IpAddress, ip_of, socket_at
from autodist.transport import RejectedPeers, redirect

_LIBRARIES = "libtensorflow"
_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, use_errno=True)
_ACCEPT4 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, use_errno=True)
_KINDS = {"accept": _ACCEPT, "accept4": _ACCEPT4}

_kept: list[Any] = []
"""The function that TensorFlow calls from now on, as long as the process lives."""
_admitted: dict[int, frozenset[IpAddress]] = {}
"""By port of this run, the machines that may connect."""
_strangers = RejectedPeers()


def admit_only(port: int, addresses: Collection[str]) -> bool:
    """Have connections to a port be closed unless they are from this process' user, or from one of some machines.

    Args:
        port: On which a server of TensorFlow listens, or is about to.
        addresses: From which other machines connect.

    Returns:
        Whether that works here; else TensorFlow's libraries are others than expected, and everybody is served.
    """
    if not _kept:
        _stand_between()
    _admitted[port] = frozenset(map(ip_of, addresses))
    return bool(_kept)


def _stand_between() -> None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        own = {name: kind((name, library)) for name, kind in _KINDS.items()}
    except (OSError, AttributeError):
        return
    for name, accept in own.items():
        selective = _KINDS[name](_selective(accept))
        if redirect(name, _LIBRARIES, ctypes.cast(selective, ctypes.c_void_p).value or 0):
            _kept.append(selective)


def _selective(accept: Callable[..., int]) -> Callable[..., int]:
    """A function for C that accepts like another one, but turns some away."""

    def selective(listener: int, *rest: Any) -> int:
        # Not one at a time: after one was turned away, the others may not be announced again.
        while (found := accept(listener, *rest)) >= 0:
            try:
                why = _why_not(found)
            except Exception as error:  # none may come to C
                why = str(error)
            if why is None:
                return found
            os.close(found)
            _strangers.tell(f"a stranger was turned away from TensorFlow's server: {why}")
            ctypes.set_errno(errno.EAGAIN)
        return found

    return selective


def _why_not(descriptor: int) -> str | None:
    """Why a connection is not admitted; None if it is."""
    connection = socket.socket(fileno=descriptor)
    try:
        own, peer = connection.getsockname()[:2], connection.getpeername()[:2]
    finally:
        connection.detach()
    addresses = _admitted.get(own[1])
    if addresses is None:  # none of ours
        return None
    local = socket_at(peer, own)
    if local is None:  # its other end is on another machine
        return None if ip_of(peer[0]) in addresses else f"{ip_of(peer[0])}, which is not a machine of the cluster"
    if local.user is None:
        return "a process of this machine that has ended already"
    return None if local.is_trusted else f"user {local.user} of this machine"
