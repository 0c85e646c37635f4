"""The addresses of machines: what names mean, and from where this one is seen."""

from __future__ import annotations

import socket

_DISCARD = 9  # a port that nothing is sent to


def ips_of(address: str) -> set[str]:
    """The IP addresses of an address or a name; none if unknown."""
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
