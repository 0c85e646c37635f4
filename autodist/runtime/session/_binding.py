"""Binds TensorFlow's servers to one address of the machine.

They listen on all addresses, whatever their cluster is called, and serve every process that connects, without asking
which it is. TensorFlow has no option for it. So while a server is being made, TensorFlow's calls of ``bind`` come here
first. A socket for all addresses with the server's port is bound to the wanted address instead.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autodist.tcp_table import IpAddress, tcp_sockets
from autodist.transport import redirect, restore

_LIBRARIES = "libtensorflow"
_BIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, use_errno=True)

_kept: list[Any] = []
"""Functions that may be called once more by a thread that had read a slot before it was restored."""


@contextmanager
def binding_to(address: str, port: int) -> Iterator[None]:
    """Have what TensorFlow binds to all addresses with this port, while it is entered, bound to one.

    Does nothing on an unexpected system, or if the address is not an IP address; then
    :func:`listens_everywhere` is true of the server.

    Args:
        address: An IP address of this machine.
        port: Port of the server that is about to be made.
    """
    try:
        ip = ipaddress.ip_address(address)
        bind = _BIND(("bind", ctypes.CDLL(None, use_errno=True)))
    except (ValueError, OSError, AttributeError):
        yield
        return
    narrowed = _narrowed(bind, ip, port)
    _kept.append(narrowed)
    before = redirect("bind", _LIBRARIES, ctypes.cast(narrowed, ctypes.c_void_p).value or 0)
    try:
        yield
    finally:
        restore(before)


def _narrowed(bind: Callable[[int, int, int], int], ip: IpAddress, port: int) -> Any:
    """Return a function for C that binds like ``bind``, but with one address for all."""

    def narrowed(descriptor: int, address: int, size_bytes: int) -> int:
        try:
            wanted = _with_address(ctypes.string_at(address, size_bytes), ip, port)
        except Exception:  # none may come to C; the check after the server's start sees what it has led to
            return bind(descriptor, address, size_bytes)
        content = ctypes.create_string_buffer(wanted, len(wanted))
        return bind(descriptor, ctypes.addressof(content), len(wanted))

    return _BIND(narrowed)


def _with_address(given: bytes, ip: IpAddress, port: int) -> bytes:
    r"""Return a ``sockaddr`` with the address instead of the one that means all, if it has this port.

    Example:
        >>> everywhere = struct.pack("=H", socket.AF_INET) + bytes([0x5B, 0xA0]) + bytes(12)
        >>> _with_address(everywhere, ipaddress.ip_address("127.0.0.2"), 23456)[4:8]
        b'\x7f\x00\x00\x02'
    """
    (family,) = struct.unpack_from("=H", given)
    if family not in (socket.AF_INET, socket.AF_INET6) or struct.unpack_from("!H", given, 2)[0] != port:
        return given
    if family == socket.AF_INET:
        return given[:4] + ip.packed + given[8:] if ip.version == 4 and not any(given[4:8]) else given
    # A socket of IPv6 serves IPv4 as well if its address is such a one.
    packed = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    is_everywhere = given[8:24] in (bytes(16), bytes(10) + b"\xff\xff" + bytes(4))
    return given[:8] + packed + given[24:] if is_everywhere else given


def listens_everywhere(port: int) -> bool:
    """Whether a socket of this machine listens on the port at all addresses; True if unknown."""
    try:
        return any(
            found.is_listening and found.own[1] == port and found.own[0].is_unspecified for found in tcp_sockets()
        )
    except OSError:
        return True
