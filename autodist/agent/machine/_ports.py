"""Ports to listen on, out of a range that firewalls know; runs on the machine."""

from __future__ import annotations

import random
import socket

__all__ = ["bound", "family_of"]

_TRIED = 50


def bound(address: str, first_port: int, last_port: int, backlog: int) -> socket.socket:
    """Return a socket that listens at an address of this machine, at a free port of the range.

    Raises:
        OSError: The address is not one of this machine, or no port is free.
    """
    ports = range(first_port, last_port + 1)
    for port in random.sample(ports, min(_TRIED, len(ports))):
        end = socket.socket(family_of(address))
        try:
            end.bind((address, port))
            end.listen(backlog)
        except OSError as error:
            end.close()
            failed = error
            continue
        return end
    raise failed


def family_of(address: str) -> socket.AddressFamily:
    """Return which kind of socket an address is for."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET
