"""Timelines of all workers within a step: spans on one clock, their sums, and a trace to look at."""

from autodist.timeline._chrome import to_chrome
from autodist.timeline._spans import KINDS, Kind, Span, StepTimeline, WorkerTimeline
from autodist.timeline._summary import WorkerSummary, summarize

__all__ = [
    "KINDS",
    "Kind",
    "Span",
    "StepTimeline",
    "WorkerSummary",
    "WorkerTimeline",
    "summarize",
    "to_chrome",
]
