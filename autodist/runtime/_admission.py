"""Who may connect to TensorFlow's servers of a run: its own user on this machine, and the machines of its cluster.

These servers run code for whoever connects, and ask nobody who it is. So TensorFlow's calls of ``accept`` come here:
a connection to a port of the run from anybody else is closed before a byte of it is read.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from autodist.runtime._symbols import slots_of

__all__ = ["admit_only", "ips_of", "source_towards"]

_LOG = logging.getLogger("autodist")
_LIBRARIES = "libtensorflow"
_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, use_errno=True)
_ACCEPT4 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, use_errno=True)
_KINDS = {"accept": _ACCEPT, "accept4": _ACCEPT4}
_MOST_TOLD = 10
_DISCARD = 9  # a port that nothing is sent to
_NOBODY = -1

_IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_kept: list[Any] = []
"""What TensorFlow calls from now on, as long as the process lives."""
_admitted: dict[int, frozenset[_IpAddress]] = {}
"""By port of this run, the machines that may connect."""
_turned_away = 0


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
    _admitted[port] = frozenset(map(_ip, addresses))
    return bool(_kept)


def ips_of(address: str) -> set[str]:
    """The IP addresses that an address or a name stands for; none if nobody knows."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def source_towards(address: str) -> str:
    """The address from which this machine connects to another one; nothing is sent.

    Raises:
        OSError: There is no way to it.

    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect((address, _DISCARD))
        return str(end.getsockname()[0])


def _stand_between() -> None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        own = {name: kind((name, library)) for name, kind in _KINDS.items()}
    except (OSError, AttributeError):
        return
    for name, accept in own.items():
        selective = _KINDS[name](_selective(accept))
        for slot in slots_of(name, _LIBRARIES):
            _kept.append(selective)
            ctypes.c_uint64.from_address(slot).value = ctypes.cast(selective, ctypes.c_void_p).value or 0


def _selective(accept: Callable[..., int]) -> Callable[..., int]:
    """A function for C that accepts like another one, but turns some away."""

    def selective(listener: int, *rest: Any) -> int:
        # Not one at a time: who has turned one away may not be told again that there are more.
        while (found := accept(listener, *rest)) >= 0:
            try:
                why = _why_not(found)
            except Exception as error:  # none may come to C
                why = str(error)
            if why is None:
                return found
            os.close(found)
            _tell(why)
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
    user = _user_of(peer, own)
    if user == _NOBODY:
        return "somebody of this machine who has left already"
    if user is not None:
        return None if user in (os.geteuid(), 0) else f"user {user} of this machine"
    return None if _ip(peer[0]) in addresses else f"{_ip(peer[0])}, which is none of the cluster's machines"


def _tell(who: str) -> None:
    global _turned_away
    _turned_away += 1
    if _turned_away <= _MOST_TOLD:
        more = "; those that come now are no longer named" if _turned_away == _MOST_TOLD else ""
        _LOG.warning("a stranger was turned away from TensorFlow's server: %s%s", who, more)


def _user_of(end: tuple[str, int], other: tuple[str, int]) -> int | None:
    """The user whose socket is one end of a connection; None if it is not on this machine.

    An end that its process has closed is nobody's: Linux says that it is root's.
    """
    places = [(_ip(end[0]), end[1]), (_ip(other[0]), other[1])]
    for fields in _connections():
        if fields[7].isdecimal() and [_place(fields[1]), _place(fields[2])] == places:
            return _NOBODY if int(fields[9]) == 0 else int(fields[7])
    return None


def _connections() -> Iterator[list[str]]:
    for name in ("tcp", "tcp6"):
        file = Path("/proc/self/net", name)
        if file.exists():
            yield from (line.split() for line in file.read_text().splitlines()[1:])


def _place(text: str) -> tuple[_IpAddress, int]:
    r"""What stands in /proc/net/tcp for an address with a port.

    Example:
        >>> _place("0100007F:1F90")
        (IPv4Address('127.0.0.1'), 8080)

    """
    digits, _, port = text.partition(":")
    words = [bytes.fromhex(digits[k : k + 8])[::-1] for k in range(0, len(digits), 8)]
    return _ip(str(ipaddress.ip_address(b"".join(words)))), int(port, 16)


def _ip(address: str) -> _IpAddress:
    """An address; one of IPv4 is the same however it is written."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return getattr(ip, "ipv4_mapped", None) or ip
