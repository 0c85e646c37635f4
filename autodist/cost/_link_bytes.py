"""Bytes by sender and receiver, for the ways in which collectives go; derived in docs/design/0011."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Links: TypeAlias = "dict[tuple[str, str], float]"


def ring_share(count: int) -> float:
    """How often each of these hosts sends a tensor that goes around their ring to be summed, and again as a sum.

    Example:
        >>> ring_share(4)
        1.5
    """
    return 2 * (count - 1) / count


def direct_share(count: int, part: float) -> float:
    """How often one of this many hosts sends a tensor, of which it sums a part.

    It sends each other part to the worker that sums it, and its own part, summed, to each other worker.

    Example:
        >>> direct_share(4, 0.25) == ring_share(4)
        True
    """
    return (1 - part) + (count - 1) * part


def ring_reduce(size_bytes: float, hosts: list[str], *, backwards: bool = False) -> Links:
    """Reduce-scatter and all-gather around the ring: each host sends 2 (n - 1) pieces of 1 / n.

    Example:
        >>> ring_reduce(100.0, ["a", "b"])
        {('a', 'b'): 100.0, ('b', 'a'): 100.0}
    """
    count = len(hosts)
    step = -1 if backwards else 1
    sent = ring_share(count) * size_bytes
    return {(host, hosts[(k + step) % count]): sent for k, host in enumerate(hosts)} if count > 1 else {}


def ring_gather(parts: Mapping[str, float]) -> Links:
    """Every part goes around the ring, and stops before it is back: each host sends all but its successor's."""
    hosts = list(parts)
    total = sum(parts.values())
    successors = [*hosts[1:], *hosts[:1]]
    return {(host, after): total - parts[after] for host, after in zip(hosts, successors, strict=True) if host != after}


def direct_reduce(size_bytes: float, parts: Mapping[str, float]) -> Links:
    """Each host sums its part: the others send theirs there, and get the sum."""
    return {
        (host, other): (parts[host] + parts[other]) * size_bytes for host in parts for other in parts if host != other
    }


def direct_gather(parts: Mapping[str, float]) -> Links:
    """Every part goes to every other host."""
    return {(host, other): part for host, part in parts.items() for other in parts if host != other}


def added(one: Links, other: Links) -> Links:
    """The sum of both."""
    return {ends: one.get(ends, 0.0) + other.get(ends, 0.0) for ends in {**one, **other}}
