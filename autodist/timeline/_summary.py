"""Where the time of a step goes: computation, communication that it hides and that it waits for, and idleness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autodist.timeline._spans import Kind, Span, StepTimeline

_Interval: TypeAlias = tuple[float, float]
_COMMUNICATION: frozenset[Kind] = frozenset(("pull", "push", "collective"))


@dataclass(frozen=True)
class WorkerSummary:
    """A worker's step, in seconds. Compute, exposed communication, serving and idleness add up to it.

    Attributes:
        host: The worker's host.
        step_s: Its whole step.
        compute_s: Time in which an operation of its own ran.
        communication_s: Time in which bytes were on their way to it or from it, or it was in a collective.
        exposed_s: The part of communication that neither its own operations hid, nor those that it runs as a server.
        serve_s: Time in which it worked as a server for others, and neither computed.
        idle_s: The rest: it waits for another worker's word, or for Python.
        received_bytes: Bytes that it got from other workers; those of collectives are not known.
        sent_bytes: Bytes that others got from it.
    """

    host: str
    step_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    serve_s: float
    idle_s: float
    received_bytes: int
    sent_bytes: int


def summarize(timeline: StepTimeline) -> list[WorkerSummary]:
    """Summarize the step of each worker, by rank."""
    return [_summary(timeline, rank) for rank in range(len(timeline.hosts))]


def _summary(timeline: StepTimeline, rank: int) -> WorkerSummary:
    step = [(timeline.begins_s[rank], timeline.ends_s[rank])]
    here = [span for span in timeline.spans if span.rank == rank]
    sent = [span for span in timeline.spans if span.peer == rank and span.rank != rank]
    compute = _common(_union(_intervals(here, frozenset(("compute",)))), step)
    serving = _common(_union(_intervals(here, frozenset(("serve",)))), step)
    moving = _common(_union([*_intervals(here, _COMMUNICATION), *_intervals(sent, _COMMUNICATION)]), step)
    busy = _union([*compute, *serving])
    all_told = _union([*busy, *moving])
    compute_s, busy_s, all_s = _length(compute), _length(busy), _length(all_told)
    step_s = _length(step)
    return WorkerSummary(
        timeline.hosts[rank],
        step_s,
        compute_s,
        _length(moving),
        all_s - busy_s,
        busy_s - compute_s,
        step_s - all_s,
        sum(span.num_bytes for span in here),
        sum(span.num_bytes for span in sent),
    )


def _intervals(spans: Iterable[Span], kinds: frozenset[Kind]) -> list[_Interval]:
    return [(span.start_s, span.end_s) for span in spans if span.kind in kinds]


def _union(intervals: Iterable[_Interval]) -> list[_Interval]:
    """The same time as intervals that do not overlap, the first one first."""
    found: list[_Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _common(one: Sequence[_Interval], other: Sequence[_Interval]) -> list[_Interval]:
    """The time that both have in common."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in one for b in other)
    return [(begin, end) for begin, end in pairs if begin < end]


def _length(intervals: Iterable[_Interval]) -> float:
    return sum(end - begin for begin, end in intervals)
