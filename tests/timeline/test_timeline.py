"""Timelines: one clock, times that add up, and a trace whose tracks hold."""

import itertools
import json
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.timeline import KINDS, Span, StepTimeline, WorkerTimeline, summarize, to_chrome


def span(kind, start_s, end_s, rank=0, num_bytes=0, peer=None):
    return Span(kind, kind, "Op", rank, start_s, end_s, num_bytes, rank if peer is None else peer)


@st.composite
def timelines(draw):
    moments = st.floats(0, 1, width=32)
    workers = []
    for rank in range(2):
        spans = []
        for kind in draw(st.lists(st.sampled_from(KINDS), max_size=8)):
            begin_s, end_s = sorted((draw(moments), draw(moments)))
            at = draw(st.integers(0, 1))
            spans.append(span(kind, begin_s, end_s, at, 7, draw(st.integers(0, 1))))
        workers.append(WorkerTimeline(rank, 0.0, 0.0, 1.0, tuple(spans)))
    return StepTimeline.of(["a", "b"], workers)


def test_a_worker_s_timeline_travels_as_text():
    told = WorkerTimeline(1, 0.25, 1.7e9, 1.7e9 + 0.5, (span("pull", 1.7e9 + 0.125, 1.7e9 + 0.25, 1, 100, 0),))
    assert WorkerTimeline.from_json(told.to_json()) == told


def test_all_workers_are_brought_to_one_clock():
    # The second worker's clock is 5 s late; its step began 0.1 s after the first one's.
    first = WorkerTimeline(0, 0.0, 100.0, 101.0, (span("compute", 100.2, 100.4), span("serve", 95.5, 95.7, 1)))
    second = WorkerTimeline(1, 5.0, 95.1, 96.0, (span("compute", 95.3, 95.4, 1),))
    found = StepTimeline.of(["a", "b"], [second, first])
    assert found.begins_s == pytest.approx((0.0, 0.1))
    assert found.ends_s == pytest.approx((1.0, 1.0))
    assert found.step_s == pytest.approx(1.0)
    assert [(s.kind, s.rank) for s in found.spans] == [("compute", 0), ("compute", 1), ("serve", 1)]
    assert [s.start_s for s in found.spans] == pytest.approx([0.2, 0.3, 0.5])


def test_where_the_time_of_a_step_goes():
    spans = (
        span("pull", 0.0, 0.2, 0, 100, 1),  # exposed: nothing runs
        span("compute", 0.2, 0.5),
        span("compute", 0.3, 0.4),
        span("push", 0.4, 0.7, 1, 50, 0),  # hidden up to 0.5
        span("wait", 0.7, 0.9),  # says nothing of what it waits for
        span("serve", 0.6, 0.8, 1),
    )
    timeline = StepTimeline.of(["a", "b"], [WorkerTimeline(0, 0, 0, 1, spans), WorkerTimeline(1, 0, 0, 1, ())])
    first, second = summarize(timeline)
    assert (first.compute_s, first.communication_s, first.exposed_s) == pytest.approx((0.3, 0.5, 0.4))
    assert (first.serve_s, first.idle_s) == pytest.approx((0.0, 0.3))
    assert (first.received_bytes, first.sent_bytes) == (100, 50)
    assert (second.serve_s, second.exposed_s, second.idle_s) == pytest.approx((0.2, 0.4, 0.4))
    assert (second.received_bytes, second.sent_bytes) == (50, 100)


@given(timelines())
def test_the_parts_of_a_step_add_up_to_it(timeline):
    for worker in summarize(timeline):
        parts = (worker.compute_s, worker.exposed_s, worker.serve_s, worker.idle_s)
        assert min(parts) >= -1e-9
        assert sum(parts) == pytest.approx(worker.step_s)
        assert worker.exposed_s <= worker.communication_s + 1e-9


@given(timelines())
def test_a_trace_has_all_spans_and_on_no_track_two_at_once(timeline):
    events = json.loads(json.dumps(to_chrome(timeline)))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["cat"] != "step"]
    assert len(spans) == len(timeline.spans)
    tracks = defaultdict(list)
    for event in spans:
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["cat"]))
    named = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    for track, found in tracks.items():
        assert {kind for _, _, kind in found} == {named[track].split()[0]}
        found.sort()
        assert all(after[0] >= before[1] - 0.21 for before, after in itertools.pairwise(found))
