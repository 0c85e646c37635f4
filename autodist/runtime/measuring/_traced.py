"""From TensorFlow's account of traced steps to the times of nodes in a step without a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from autodist.graph import NodeTime

_REMAINS = 0.25
"""The least share of the time between two nodes that remains, relative to shortening all in proportion."""
_HALVINGS = 40
_BEGIN = "_SOURCE"  # runs until a thread has come up


def node_times(steps: Sequence[Any], step_s: float, prefix: str) -> dict[str, NodeTime]:
    """By name of what has run, the medians of its times over some traced steps.

    Only the faster half of them counts: something else has come between the others.

    Args:
        steps: The ``RunMetadata`` of each.
        step_s: Seconds of such a step that is not traced.
        prefix: What names begin with in the session and not in G.
    """
    found: dict[str, list[NodeTime]] = {}
    traced = sorted((_Step(metadata, prefix) for metadata in steps), key=lambda step: step.length_s)
    for step in traced[: -(-len(traced) // 2)]:
        for name, time in _merged(step, step_s).items():
            found.setdefault(name, []).append(time)
    return {name: _median(times) for name, times in found.items()}


class _Step:
    """One traced step, as arrays."""

    def __init__(self, metadata: Any, prefix: str) -> None:
        stats = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
        # In control flow a name has the prefix in its midst as well.
        self.names = [node.node_name.replace(f"{prefix}/", "") for node in stats]
        self.ops = [node.timeline_label.partition(" = ")[2].partition("(")[0] for node in stats]
        begins = np.array([node.all_start_nanos for node in stats], np.int64)
        self.starts_s = (begins - begins.min()) / 1e9
        self.ends_s = self.starts_s + np.array([node.all_end_rel_nanos for node in stats]) / 1e9
        self.length_s = float(self.ends_s.max())
        _fill_pauses(self.starts_s, self.ends_s)

    def rows(self, step_s: float) -> Iterator[tuple[str, str, float, float]]:
        """Name, op, start and end of each run of a node, scaled to a step of this many seconds."""
        traced, real = _clocks(self.starts_s, self.length_s, step_s)
        starts, ends = (np.interp(times, traced, real) for times in (self.starts_s, self.ends_s))
        rows = zip(self.names, self.ops, starts.tolist(), ends.tolist(), strict=True)
        yield from (row for row in rows if row[0] != _BEGIN)


def _fill_pauses(starts_s: np.ndarray, ends_s: np.ndarray) -> None:
    """Have a node last until the next one starts where nothing else runs.

    TensorFlow looks then for what can run next, which takes longer than many a small node.
    """
    order = np.argsort(starts_s, kind="stable")
    last = order[0]
    for node in order[1:]:
        if ends_s[last] < starts_s[node]:
            ends_s[last] = starts_s[node]
        if ends_s[node] > ends_s[last]:
            last = node


def _clocks(starts_s: np.ndarray, length_s: float, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Times in a traced step, and what they are in the same step without tracing.

    Tracing makes steps slower, by some microseconds for each node: a graph of many small nodes takes twice as long, one
    of few large ones hardly longer. So what lies between the starts of two nodes loses the same time everywhere, so
    much that the whole is as long as the step that was not traced. As no clock is that exact, nothing vanishes.
    """
    traced = np.unique(np.concatenate([[0.0], starts_s, [length_s]]))
    gaps = np.diff(traced)
    least = _REMAINS * min(1.0, step_s / length_s) * gaps
    low_s, high_s = 0.0, length_s
    for _ in range(_HALVINGS):
        overhead_s = (low_s + high_s) / 2
        is_too_long = np.maximum(gaps - overhead_s, least).sum() > step_s
        low_s, high_s = (overhead_s, high_s) if is_too_long else (low_s, overhead_s)
    real = np.concatenate([[0.0], np.cumsum(np.maximum(gaps - high_s, least))])
    return traced, real * (step_s / real[-1])


def _merged(step: _Step, step_s: float) -> dict[str, NodeTime]:
    """By name, the times in one step; nodes in loops run more than once."""
    found: dict[str, NodeTime] = {}
    for name, op, start_s, end_s in step.rows(step_s):
        before = found.get(name, NodeTime(op, start_s, end_s, 0.0))
        busy_s = before.busy_s + end_s - start_s
        found[name] = NodeTime(op, min(before.start_s, start_s), max(before.end_s, end_s), busy_s)
    return found


def _median(times: Sequence[NodeTime]) -> NodeTime:
    start_s, end_s, busy_s = (median(getattr(t, name) for t in times) for name in ("start_s", "end_s", "busy_s"))
    return NodeTime(times[0].op, start_s, end_s, busy_s)
