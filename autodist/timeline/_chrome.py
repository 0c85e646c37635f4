"""A step as a trace for Perfetto (https://ui.perfetto.dev) or chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autodist.timeline._spans import KINDS, Span, StepTimeline

_MICROSECONDS = 1e6
_STEP_TRACK = 0
_TRACKS_PER_KIND = 1000


def to_chrome(timeline: StepTimeline) -> dict[str, Any]:
    """The content of a JSON file in Chrome's trace event format: a process per worker, tracks for each kind of span.

    Spans of a kind that overlap are on several tracks.

    Example:
        >>> timeline = StepTimeline.of(["a"], [])  # doctest: +SKIP
        >>> json.dump(to_chrome(timeline), open("timeline.json", "w"))  # doctest: +SKIP
    """
    events = list(_steps(timeline))
    for rank in range(len(timeline.hosts)):
        for number, kind in enumerate(KINDS, 1):
            spans = [span for span in timeline.spans if (span.rank, span.kind) == (rank, kind)]
            for lane, spans_of_lane in enumerate(_lanes(spans)):
                track = number * _TRACKS_PER_KIND + lane
                events.append(_named("thread_name", kind if lane == 0 else f"{kind} {lane + 1}", rank, track))
                events.append(_sorted_by("thread_sort_index", track, rank, track))
                events += [_event(span, timeline, track) for span in spans_of_lane]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _steps(timeline: StepTimeline) -> Iterator[dict[str, Any]]:
    for rank, (host, begin_s, end_s) in enumerate(zip(timeline.hosts, timeline.begins_s, timeline.ends_s, strict=True)):
        yield _named("process_name", f"worker {rank} on {host}", rank, _STEP_TRACK)
        yield _sorted_by("process_sort_index", rank, rank, _STEP_TRACK)
        yield _named("thread_name", "step", rank, _STEP_TRACK)
        yield _complete("step", "step", begin_s, end_s, rank, _STEP_TRACK, {})


def _event(span: Span, timeline: StepTimeline, track: int) -> dict[str, Any]:
    about: dict[str, Any] = {"op": span.op}
    if span.num_bytes:
        about |= {"bytes": span.num_bytes, "from": timeline.hosts[span.peer]}
    return _complete(span.name, span.kind, span.start_s, span.end_s, span.rank, track, about)


def _complete(
    name: str, kind: str, start_s: float, end_s: float, rank: int, track: int, about: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": round(start_s * _MICROSECONDS, 1), "dur": round((end_s - start_s) * _MICROSECONDS, 1)}
    return {"ph": "X", "name": name, "cat": kind, "pid": rank, "tid": track, **times, "args": about}


def _named(what: str, name: str, rank: int, track: int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": track, "args": {"name": name}}


def _sorted_by(what: str, place: int, rank: int, track: int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": track, "args": {"sort_index": place}}


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans on as few tracks as let none overlap."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.start_s):
        free = next((lane for lane in lanes if lane[-1].end_s <= span.start_s), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes
