"""The TCP sockets of this machine, as Linux lists them in ``/proc/net/tcp``. Agents take this file along."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_LISTENING = "0A"

__all__ = ["IpAddress", "TcpSocket", "ip_of", "socket_at", "tcp_sockets"]


@dataclass(frozen=True)
class TcpSocket:
    """One end of a connection, or a socket that listens for some.

    Attributes:
        own: Its address and port.
        other: Those of the other end.
        is_listening: Whether it listens.
        user: Id of the user whose process has it; None where the process has closed it, when Linux names root.
    """

    own: tuple[IpAddress, int]
    other: tuple[IpAddress, int]
    is_listening: bool
    user: int | None

    @property
    def is_trusted(self) -> bool:
        """Whether a process of this process' user, or of root, has it."""
        return self.user in (os.geteuid(), 0)


def tcp_sockets() -> Iterator[TcpSocket]:
    """Return all sockets of this machine, or of the network namespace that this process is in.

    Raises:
        OSError: The list can't be read.
    """
    for name in ("tcp", "tcp6"):
        file = Path("/proc/self/net", name)
        for line in file.read_text().splitlines()[1:] if file.exists() else ():
            _, own, other, state, _, _, _, user, _, inode, *_ = line.split()
            yield TcpSocket(_place(own), _place(other), state == _LISTENING, int(user) if int(inode) else None)


def socket_at(end: tuple[str, int], other: tuple[str, int]) -> TcpSocket | None:
    """Return the socket that is one end of a connection; None if it is not on this machine.

    Raises:
        OSError: The list can't be read.
    """
    places = [(ip_of(host), port) for host, port in (end, other)]
    return next((found for found in tcp_sockets() if [found.own, found.other] == places), None)


def ip_of(address: str) -> IpAddress:
    """An address; one of IPv4 is the same however it is written.

    Example:
        >>> ip_of("::ffff:10.0.0.1")
        IPv4Address('10.0.0.1')
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    return getattr(ip, "ipv4_mapped", None) or ip


def _place(text: str) -> tuple[IpAddress, int]:
    r"""How the list writes an address with a port.

    Example:
        >>> _place("0100007F:1F90")
        (IPv4Address('127.0.0.1'), 8080)
    """
    digits, _, port = text.partition(":")
    words = [bytes.fromhex(digits[k : k + 8])[::-1] for k in range(0, len(digits), 8)]
    return ip_of(str(ipaddress.ip_address(b"".join(words)))), int(port, 16)
