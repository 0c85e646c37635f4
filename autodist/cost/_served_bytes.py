"""Bytes between a host and a server for one shard: of single shards as numbers, of many as arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Amount: TypeAlias = Any
"""A number, or an array of them."""


class Served(Protocol):
    """Amounts that travel for a shard on a server."""

    @property
    def summed_bytes(self) -> Amount:
        """Bytes of each sender that are to be summed."""

    @property
    def gathered_bytes(self) -> Amount:
        """Bytes of each host that are to be gathered."""

    @property
    def gathered_by_example(self) -> Amount:
        """The same, for each example of the host."""

    @property
    def asked_by_example(self) -> Amount:
        """Bytes of row numbers that its lookups send, for each of its examples."""

    @property
    def read_bytes(self) -> Amount:
        """Bytes of the value that it fetches."""

    @property
    def read_by_example(self) -> Amount:
        """The same, for each of its examples."""


def pushed_bytes(shard: Served, senders: Amount, hosts: Amount, examples: Amount) -> Amount:
    """Bytes that go to a server.

    Args:
        shard: What travels.
        senders: The senders of terms of a sum: one for each host that joins its replicas' gradients, else these.
        hosts: How many hosts send.
        examples: How many examples they have.
    """
    by_example = shard.gathered_by_example + shard.asked_by_example
    return senders * shard.summed_bytes + hosts * shard.gathered_bytes + examples * by_example


def fetched_bytes(shard: Served, hosts: Amount, examples: Amount) -> Amount:
    """Bytes that come from a server; a value comes once for all replicas of a host."""
    return hosts * shard.read_bytes + examples * shard.read_by_example
