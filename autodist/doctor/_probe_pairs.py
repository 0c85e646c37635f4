"""Bandwidth, bursts and latency between all pairs of machines."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from autodist.doctor._cluster_agents import ClusterAgents, ReachedHost
from autodist.errors import AutoDistError

_WARM_UP_S, _MEASURE_S, _TIMES = 0.3, 0.7, 2
_LATENCY_ROUNDS = 101
_TRAINS, _TRAIN_S = 3, 0.3
_TIMEOUT_S = 40.0

T = TypeVar("T")


@dataclass(frozen=True)
class MeasuredLink:
    """The speed between two machines.

    Attributes:
        a: Name of one machine in the spec.
        b: Name of the other.
        there_gbps: Gbit/s of data from a to b; 0 if it could not be measured.
        back_gbps: Gbit/s of data from b to a; 0 if it could not be measured.
        latency_ms: Milliseconds one way.
        there_burst_kb: KB (10^3 bytes) that pass at once from a to b after a rest, if a token bucket bounds the link;
            None if that is not known.
        back_burst_kb: The same from b to a.
        error: Why it could not be measured; else empty.
    """

    a: str
    b: str
    there_gbps: float = 0.0
    back_gbps: float = 0.0
    latency_ms: float = 0.0
    there_burst_kb: float | None = None
    back_burst_kb: float | None = None
    error: str = ""

    @property
    def bandwidth_gbps(self) -> float:
        """The slower direction, which is what a step waits for."""
        return min(self.there_gbps, self.back_gbps)


def disjoint_rounds(items: Sequence[T]) -> list[list[tuple[T, T]]]:
    """Return all pairs in as few rounds as possible; in a round no machine is in two pairs.

    Example:
        >>> disjoint_rounds("abcd")
        [[('a', 'd'), ('b', 'c')], [('a', 'c'), ('d', 'b')], [('a', 'b'), ('c', 'd')]]
    """
    circle: list[T | None] = [*items, *([None] if len(items) % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(a, b) for a, b in pairs if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


async def measure_links(cluster_agents: ClusterAgents, note: Callable[[str], None]) -> tuple[MeasuredLink, ...]:
    """Measure all pairs of machines in both directions, those at once that have no machine in common."""
    machines = [machine for machine in cluster_agents.machines if machine.port]
    rounds = disjoint_rounds(machines)
    num_pairs = sum(map(len, rounds))
    if not num_pairs:
        return ()
    duration_s = len(rounds) * 2 * (_TIMES * (_WARM_UP_S + _MEASURE_S) + _TRAINS * _TRAIN_S)
    note(f"measuring {num_pairs} link{'s' if num_pairs > 1 else ''}, about {duration_s:.0f} s")
    found: list[MeasuredLink] = []
    for pairs in rounds:
        found += await asyncio.gather(*(_measured(a, b, cluster_agents.token) for a, b in pairs))
    order = {visit.name: rank for rank, visit in enumerate(cluster_agents.visits)}
    return tuple(sorted(found, key=lambda link: (order[link.a], order[link.b])))


async def _measured(first: ReachedHost, second: ReachedHost, token: str) -> MeasuredLink:
    a, b = first.visit.name, second.visit.name
    try:
        latency_ms = await _ask("probe.latency", first, second, token, rounds=_LATENCY_ROUNDS)
        window = {"warm_up_s": _WARM_UP_S, "measure_s": _MEASURE_S}
        there = back = 0.0
        # Other work on a machine, or on the network, makes a link look slower than it is, never faster. Time passes
        # between two measurements of a direction, so that work of a moment does not spoil both.
        for _ in range(_TIMES):
            there = max(there, await _ask("probe.bandwidth", first, second, token, **window))
            back = max(back, await _ask("probe.bandwidth", second, first, token, **window))
        there_kb = await _burst_kb(first, second, token, there)
        back_kb = await _burst_kb(second, first, token, back)
    except AutoDistError as error:
        return MeasuredLink(a, b, error=error.message)
    return MeasuredLink(a, b, there, back, latency_ms, there_kb, back_kb)


async def _burst_kb(from_: ReachedHost, to: ReachedHost, token: str, gbps: float) -> float | None:
    """The KB that pass at once; None where trains disagree, also when asked again.

    A machine with other work receives late, and then much.
    """
    for _ in range(2 if gbps > 0 else 0):
        try:
            found = await _ask("probe.burst", from_, to, token, gbps=gbps, trains=_TRAINS)
        except AutoDistError:
            return None
        middle = statistics.median(found or [0.0])
        if found and min(found) >= middle / 2:
            return float(middle)
    return None


async def _ask(function: str, from_: ReachedHost, to: ReachedHost, token: str, **settings: float) -> Any:
    _, address, port = to.target
    return await from_.agent.call(function, timeout_s=_TIMEOUT_S, address=address, port=port, token=token, **settings)
