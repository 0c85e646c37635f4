"""Searching on real machines: launched workers measure what the search proposes."""

from autodist.tuning._bench import Course, LaunchedBench
from autodist.tuning._search import SIMULATORS, Baseline, SearchObserver, SearchRequest, SearchResult, search

__all__ = [
    "SIMULATORS",
    "Baseline",
    "Course",
    "LaunchedBench",
    "SearchObserver",
    "SearchRequest",
    "SearchResult",
    "search",
]
