"""Bytes by sender and receiver, for each algorithm of collectives; derived in docs/design/0011."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Links: TypeAlias = "dict[tuple[str, str], float]"


def ring_share(count: int) -> float:
    """The bytes that each of these hosts sends in an all-reduce around their ring, as a multiple of the tensor's bytes.

    Example:
        >>> ring_share(4)
        1.5
    """
    return 2 * (count - 1) / count


def direct_share(count: int, part: float) -> float:
    """The bytes that one of these hosts sends in a direct all-reduce, as a multiple of the tensor's bytes.

    The host sends each other part to the host that sums it, and the sum of its own part to each other host.

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
    """All-gather around the ring: each part stops before it is back, so a host sends all but its successor's part."""
    hosts = list(parts)
    total = sum(parts.values())
    successors = [*hosts[1:], *hosts[:1]]
    return {(host, after): total - parts[after] for host, after in zip(hosts, successors, strict=True) if host != after}


def direct_reduce(size_bytes: float, parts: Mapping[str, float]) -> Links:
    """Direct all-reduce: each host sums one part, of which the others send it their terms and get the sum."""
    return {
        (host, other): (parts[host] + parts[other]) * size_bytes for host in parts for other in parts if host != other
    }


def direct_gather(parts: Mapping[str, float]) -> Links:
    """Direct all-gather: every host sends its part to every other host."""
    return {(host, other): part for host, part in parts.items() for other in parts if host != other}


def added(one: Links, other: Links) -> Links:
    """The bytes of both, added link by link."""
    return {ends: one.get(ends, 0.0) + other.get(ends, 0.0) for ends in {**one, **other}}
