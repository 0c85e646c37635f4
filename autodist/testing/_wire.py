"""Bytes that really go over the wire: the kernel's own count, connection by connection."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

Connection: TypeAlias = tuple[tuple[str, int], tuple[str, int]]
"""The own end and the other end of a TCP connection, each as address and port."""

_ESTABLISHED = 1
_COUNTERS = struct.Struct("=QQ")
_COUNTERS_OFFSET = 120  # of tcpi_bytes_acked and tcpi_bytes_received in Linux' struct tcp_info


def wire_bytes() -> dict[Connection, tuple[int, int]]:
    """Payload bytes that this process has sent and received so far, by open TCP connection (Linux only).

    The kernel counts them, whatever owns the socket: gRPC, Gloo or Python. What was sent counts when the other
    end has acknowledged it; headers and repeated segments don't count.

    Example:
        >>> import socket
        >>> with socket.create_server(("127.0.0.1", 0)) as server:
        ...     with socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
        ...         one.sendall(b"12345")
        ...         received = other.recv(5, socket.MSG_WAITALL)
        ...         wire_bytes()[other.getsockname(), other.getpeername()]
        (0, 5)
    """
    found: dict[Connection, tuple[int, int]] = {}
    for descriptor in _sockets():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            counters = _counters(end)
            if counters is not None:
                found[_address(end.getsockname()), _address(end.getpeername())] = counters
    return found


def sent_bytes(
    before: Mapping[Connection, tuple[int, int]], after: Mapping[Connection, tuple[int, int]]
) -> dict[Connection, int]:
    """Bytes sent between two calls of :func:`wire_bytes`, by connection that was open at both."""
    return {ends: after[ends][0] - before[ends][0] for ends in before.keys() & after.keys()}


def _sockets() -> Iterator[int]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                yield int(name)


def _counters(end: socket.socket) -> tuple[int, int] | None:
    if end.family not in (socket.AF_INET, socket.AF_INET6) or end.type != socket.SOCK_STREAM:
        return None
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if info[0] != _ESTABLISHED:
        return None
    acknowledged, received = _COUNTERS.unpack_from(info, _COUNTERS_OFFSET)
    return acknowledged, received


def _address(name: tuple[str, int]) -> tuple[str, int]:
    """IPv4 in either spelling: gRPC's sockets are IPv6, and so is how they call an IPv4 peer."""
    return name[0].removeprefix("::ffff:"), name[1]
