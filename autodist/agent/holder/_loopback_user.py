"""Whose connections over the machine's own loopback are, as Linux lists them in ``/proc/net/tcp``."""

from __future__ import annotations

import os
import socket
import struct

__all__ = ["is_of_others", "user_of"]

_IPV4_IN_IPV6 = "0000000000000000FFFF0000" if struct.pack("=H", 1) == b"\x01\x00" else "00000000000000000000FFFF"

Place = tuple[str, int]


def is_of_others(peer: Place, own: Place) -> bool:
    """Whether a connection is certainly not of this process' user, nor of root.

    Args:
        peer: Address and port of the end that has called.
        own: Those of the end that was called.
    """
    user = user_of(peer, own)
    return user is not None and user not in (os.geteuid(), 0)


def user_of(end: Place, other: Place) -> int | None:
    """Return the user that has one end of a connection of IPv4; None where the system doesn't say.

    One that has closed its end already has the number -1.
    """
    for name, before in (("tcp", ""), ("tcp6", _IPV4_IN_IPV6)):
        wanted = f" {before}{_written(end)} {before}{_written(other)} "
        try:
            with open(f"/proc/self/net/{name}", encoding="ascii") as file:
                line = next((line for line in file if wanted in line), None)
        except OSError:  # another system
            return None
        if line is not None:
            user, _, inode = line.split()[7:10]
            return int(user) if int(inode) else -1
    return None


def _written(place: Place) -> str:
    """How the list writes an address with a port.

    Example:
        >>> _written(("127.0.0.1", 8080)) in ("0100007F:1F90", "7F000001:1F90")
        True
    """
    (address,) = struct.unpack("=I", socket.inet_aton(place[0]))
    return f"{address:08X}:{place[1]:04X}"
