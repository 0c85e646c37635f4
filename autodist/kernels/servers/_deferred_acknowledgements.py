"""Deferred acknowledgements, for units whose updates no node waits for within the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autodist.graph import StepAnalysis, node_of
from autodist.kernels._base import SyncPoint


def deferred_units(analysis: StepAnalysis, points: Iterable[SyncPoint], writes: Mapping[str, str]) -> frozenset[str]:
    """The units whose updates precede neither another unit's update nor anything that a worker sends.

    A server may acknowledge all their updates together, at the end. For other units this could block: one update may
    have to be acknowledged before another one can start.

    Args:
        analysis: The replicated step, which is the same on all workers.
        points: Where values of workers meet.
        writes: By node that changes a unit's variable, the unit.
    """
    followers: dict[str, list[str]] = {}
    for name, needs in analysis.index.needs.items():
        for source in needs:
            followers.setdefault(source, []).append(name)
    sent = {node_of(t) for point in points for tensors in (point.given, *point.parts) for t in tensors}
    immediate = {unit for write, unit in writes.items() if _leads_on(write, unit, followers, sent, writes)}
    return frozenset(writes.values()) - immediate


def _leads_on(
    write: str, unit: str, followers: Mapping[str, list[str]], sent: set[str], writes: Mapping[str, str]
) -> bool:
    """Whether something that is sent, or another unit's update, comes after a write."""
    stack, seen = list(followers.get(write, ())), set[str]()
    while stack:
        name = stack.pop()
        if name in sent or writes.get(name, unit) != unit:
            return True
        if name not in seen:
            seen.add(name)
            stack.extend(followers.get(name, ()))
    return False
