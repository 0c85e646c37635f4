"""Bytes that a step sends over a network, part by part: by link, and their sums by host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Flow:
    """The bytes of one step for one shard.

    Attributes:
        variable: The variable's name; None for small state: batch size, loss, metrics, statistics.
        shard: The shard's number, from 0; None if the variable is not partitioned.
        links: By sender and receiver, names of hosts: bytes per step.
    """

    variable: str | None
    shard: int | None
    links: Mapping[tuple[str, str], float]

    @property
    def sent(self) -> dict[str, float]:
        """Bytes per step by sending host; hosts that send nothing are left out."""
        return _summed((sender, size) for (sender, _), size in self.links.items())

    @property
    def received(self) -> dict[str, float]:
        """Bytes per step by receiving host; hosts that receive nothing are left out."""
        return _summed((receiver, size) for (_, receiver), size in self.links.items())


@dataclass(frozen=True)
class Traffic:
    """All bytes of one step.

    Attributes:
        hosts: Names of all hosts, by rank.
        flows: One per shard, in the strategy's order, and one for the small state.
        batch_size: Examples in the global batch; numbers of sparse rows follow from it.
        rows: By sparse variable, the number of rows that a step touches on all hosts, doubles counted.
        guessed: Sparse variables whose rows are a guess: one per example.
        is_batch_supposed: Whether the number of examples of a batch is unknown.
    """

    hosts: tuple[str, ...]
    flows: tuple[Flow, ...]
    batch_size: int
    rows: Mapping[str, float]
    guessed: tuple[str, ...] = ()
    is_batch_supposed: bool = False

    @cached_property
    def links(self) -> dict[tuple[str, str], float]:
        """Bytes per step by sender and receiver."""
        return _summed(item for flow in self.flows for item in flow.links.items())

    @property
    def sent(self) -> dict[str, float]:
        """Bytes per step that each host sends."""
        return dict.fromkeys(self.hosts, 0.0) | _summed((pair[0], size) for pair, size in self.links.items())

    @property
    def received(self) -> dict[str, float]:
        """Bytes per step that each host receives."""
        return dict.fromkeys(self.hosts, 0.0) | _summed((pair[1], size) for pair, size in self.links.items())


def _summed(items: Iterable[tuple[_Key, float]]) -> dict[_Key, float]:
    totals: dict[_Key, float] = {}
    for key, size in items:
        totals[key] = totals.get(key, 0.0) + size
    return totals
