"""By which rule connections between workers find out how fast they may send. Agents take this file along."""

from __future__ import annotations

import contextlib
import socket
import sys

__all__ = ["rules_for", "suit"]

_PACED = b"bbr"
_SHORT_US = 5_000
"""Microseconds of a round trip; of longer ones, packets are also lost that no full queue has dropped."""
_SHORTEST_US = 1_000
"""The same for Reno, which takes long on longer ones to grow fast again after a loss."""
_INFO_BYTES, _ROUND_TRIP = 152, slice(148, 152)
"""Where Linux' `tcp_info` has the shortest round trip of a connection so far."""
_NAME_BYTES = 16


def rules_for(current: bytes, round_trip_us: int) -> tuple[bytes, ...]:
    """The rules that suit a connection better than its own one, the best first.

    In an all-reduce each worker sends to all others at once, and receives from all. BBR estimates the bandwidth of
    each connection and paces it accordingly: it sends more than fits where many meet, loses packets, and takes long
    to notice that others have ended. On 16 hosts with 100 Mbit/s an all-reduce took twice as long with it as with
    CUBIC, which goes by losses and fills what is free, or with Reno, which any user may choose. BBR is for long paths,
    where losses say little: there the machine's choice stays, as do all other rules, which somebody may have chosen
    for this network.

    Args:
        current: Its own one, by the system's name.
        round_trip_us: The shortest round trip so far, in microseconds.

    Example:
        >>> rules_for(b"bbr", 120), rules_for(b"bbr", 3_000), rules_for(b"bbr", 40_000)
        ((b'cubic', b'reno'), (b'cubic',), ())
    """
    if not current.startswith(_PACED) or round_trip_us > _SHORT_US:
        return ()
    return (b"cubic", b"reno") if round_trip_us <= _SHORTEST_US else (b"cubic",)


def suit(connection: socket.socket) -> None:
    """Let a connection to another worker follow the rule that suits it, where the system has it and lets us choose."""
    with contextlib.suppress(OSError, AttributeError):  # of Linux
        current = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES).rstrip(b"\0")
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        if len(told) == _INFO_BYTES:
            _follow(connection, rules_for(current, int.from_bytes(told[_ROUND_TRIP], sys.byteorder)))


def _follow(connection: socket.socket, rules: tuple[bytes, ...]) -> None:
    """Take the first of these that the system has and allows to this user."""
    for rule in rules:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, rule)
            return
