"""From TensorFlow's account of a step to a worker's timeline."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator
from typing import Any

from autodist import carriers
from autodist.coordination import CoordinatorClient
from autodist.timeline import Kind, Span, WorkerTimeline

_PINGS = 9
_TASK = r"/job:(?P<job>\w+)/(?:replica:\d+/)?task:(?P<task>\d+)/device:\w+:\d+"
_DEVICE = re.compile(_TASK)
_SENT_FROM = re.compile(rf" (?P<edge>\S+) from {_TASK} to ")
_SENT = "RecvTensor"
_WAITING = frozenset(("QueueDequeueV2", "QueueEnqueueV2", "QueueEnqueueManyV2", "Recv", "_Recv", "_HostRecv"))
_STREAMED: dict[str, Kind] = {"AutodistSend": "push", "AutodistReceive": "pull", "AutodistAsk": "pull"}


def worker_timeline(
    metadata: Any, rank: int, prefix: str, start_s: float, end_s: float, offset_s: float
) -> WorkerTimeline:
    """The timeline of a worker's session in one step.

    Args:
        metadata: The ``RunMetadata`` of the step.
        rank: Rank of the worker.
        prefix: What names begin with in the session and not in G.
        start_s: When the step began, by this process' clock.
        end_s: When it was done.
        offset_s: See :func:`clock_offset_s`.
    """
    return WorkerTimeline(rank, offset_s, start_s, end_s, tuple(_spans(metadata, rank, f"{prefix}/")))


def clock_offset_s(coordinator: CoordinatorClient) -> float:
    """Seconds to add to this process' clock to have the launcher's, as the fastest of several questions tells."""
    _, offset_s = min(_asked(coordinator) for _ in range(_PINGS))
    return offset_s


def _asked(coordinator: CoordinatorClient) -> tuple[float, float]:
    """How long the answer took, and the clocks' difference if both ways took as long; seconds."""
    asked_s = time.time()
    there_s = coordinator.clock_s()
    answered_s = time.time()
    return answered_s - asked_s, there_s - (asked_s + answered_s) / 2


def _spans(metadata: Any, rank: int, prefix: str) -> Iterator[Span]:
    for device in metadata.step_stats.dev_stats:
        found = _DEVICE.fullmatch(device.device)
        if found is None:  # a profiler's view of the same
            continue
        at = rank if found["job"] == "localhost" else int(found["task"])
        for node in device.node_stats:
            yield _sent(node, at, rank, prefix) if node.node_name == _SENT else _ran(node, at, rank, prefix)


def _sent(node: Any, at: int, rank: int, prefix: str) -> Span:
    """Bytes on their way to a device."""
    found = _SENT_FROM.search(node.timeline_label)
    num_bytes = sum(output.tensor_description.allocation_description.requested_bytes for output in node.output)
    edge = node.timeline_label if found is None else found["edge"].replace(prefix, "")
    kind: Kind = "pull" if at == rank else "push"
    return Span(kind, edge, _SENT, at, *_times_s(node), num_bytes, at if found is None else int(found["task"]))


def _ran(node: Any, at: int, rank: int, prefix: str) -> Span:
    op = node.timeline_label.partition(" = ")[2].partition("(")[0]
    return Span(_kind(op, at == rank), node.node_name.replace(prefix, ""), op, at, *_times_s(node), peer=at)


def _kind(op: str, is_own: bool) -> Kind:
    if op in _WAITING:
        return "wait"
    if op in _STREAMED:
        return _STREAMED[op]
    if op.startswith(_collectives()):
        return "collective"
    return "compute" if is_own else "serve"


@functools.cache
def _collectives() -> tuple[str, ...]:
    """The first words of the types of collectives."""
    return tuple(carrier.op_prefix for carrier in carriers.carriers() if carrier.op_prefix)


def _times_s(node: Any) -> tuple[float, float]:
    start_s = node.all_start_nanos / 1e9 or node.all_start_micros / 1e6
    return start_s, start_s + (node.all_end_rel_nanos / 1e9 or node.all_end_rel_micros / 1e6)
