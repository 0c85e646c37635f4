"""Bytes between a host and a server for a shard: numbers for one shard, arrays for many."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

Amount: TypeAlias = Any
"""A number, or an array of numbers."""


class Served(Protocol):
    """The sizes of the messages for a shard on a server."""

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
        shard: The sizes of its messages.
        senders: The number of senders of terms of a sum: 1 for a host that joins its replicas' gradients, else the
            number of its replicas.
        hosts: How many hosts send.
        examples: How many examples these hosts have.
    """
    by_example = shard.gathered_by_example + shard.asked_by_example
    return senders * shard.summed_bytes + hosts * shard.gathered_bytes + examples * by_example


def fetched_bytes(shard: Served, hosts: Amount, examples: Amount) -> Amount:
    """Bytes that come from a server; a value comes once for all replicas of a host."""
    return hosts * shard.read_bytes + examples * shard.read_by_example
