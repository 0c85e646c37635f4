"""Spans of a step, as plain data that travels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["compute", "pull", "push", "collective", "wait", "serve"]
KINDS: tuple[Kind, ...] = ("compute", "pull", "push", "collective", "wait", "serve")
"""In order: work that a worker computes; bytes that it receives; bytes that a server receives from it; a collective,
including the wait for the others; a wait for another worker's word; a server's work for a worker."""

_DIGITS = 7
"""Decimals of seconds since a step began: tenths of a microsecond."""


@dataclass(frozen=True)
class Span:
    """Something that ran.

    Attributes:
        kind: What it is.
        name: Name of the node, or of what was sent.
        op: Its type.
        rank: The worker on which it ran; for bytes, the worker that received them.
        start_s: When it began, by the clock of the worker on which it ran.
        end_s: When it was done.
        num_bytes: Sent bytes; 0 for what sends nothing.
        peer: For bytes, the rank of the worker that they came from; else its own.
    """

    kind: Kind
    name: str
    op: str
    rank: int
    start_s: float
    end_s: float
    num_bytes: int = 0
    peer: int = -1


@dataclass(frozen=True)
class WorkerTimeline:
    """Spans of one worker's session in a step, on whichever worker's devices.

    Attributes:
        rank: Rank of the worker.
        offset_s: What has to be added to its clock to have that of the launcher.
        start_s: When its step began, by its clock.
        end_s: When it was done.
        spans: What ran.
    """

    rank: int
    offset_s: float
    start_s: float
    end_s: float
    spans: tuple[Span, ...]

    def to_json(self) -> str:
        """One line of JSON, which :meth:`from_json` reads."""
        rows = [
            (s.kind, s.name, s.op, s.rank, _rounded(s.start_s, self), _rounded(s.end_s, self), s.num_bytes, s.peer)
            for s in self.spans
        ]
        return json.dumps([self.rank, self.offset_s, self.start_s, self.end_s, rows])

    @classmethod
    def from_json(cls, text: str) -> WorkerTimeline:
        """Return what :meth:`to_json` wrote."""
        rank, offset_s, start_s, end_s, rows = json.loads(text)
        spans = (
            Span(kind, name, op, at, start_s + begin, start_s + end, num_bytes, peer)
            for kind, name, op, at, begin, end, num_bytes, peer in rows
        )
        return cls(rank, offset_s, start_s, end_s, tuple(spans))


@dataclass(frozen=True)
class StepTimeline:
    """A step of all workers, on one clock.

    Attributes:
        hosts: By rank, the name of the worker's host.
        begins_s: By rank, when the worker's step began; the first one at 0.
        ends_s: By rank, when it was done.
        spans: What ran, the first one first.
    """

    hosts: tuple[str, ...]
    begins_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, hosts: Sequence[str], workers: Sequence[WorkerTimeline]) -> StepTimeline:
        """Bring what the workers tell of the same step to one clock.

        Args:
            hosts: By rank, their names.
            workers: One for each, in any order.
        """
        by_rank = sorted(workers, key=lambda worker: worker.rank)
        offsets_s = [worker.offset_s for worker in by_rank]
        zero_s = min(worker.start_s + worker.offset_s for worker in by_rank)
        spans = (_shifted(span, offsets_s[span.rank] - zero_s) for worker in by_rank for span in worker.spans)
        return cls(
            tuple(hosts),
            tuple(worker.start_s + worker.offset_s - zero_s for worker in by_rank),
            tuple(worker.end_s + worker.offset_s - zero_s for worker in by_rank),
            tuple(sorted(spans, key=lambda span: span.start_s)),
        )

    @property
    def step_s(self) -> float:
        """From the first worker's begin to the last one's end."""
        return max(self.ends_s) - min(self.begins_s)


def _rounded(time_s: float, timeline: WorkerTimeline) -> float:
    return round(time_s - timeline.start_s, _DIGITS)


def _shifted(span: Span, by_s: float) -> Span:
    return replace(span, start_s=span.start_s + by_s, end_s=span.end_s + by_s)
