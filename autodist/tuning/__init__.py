"""Searching on real machines: launched workers measure what the search proposes; or without any, by a simulator."""

from autodist.tuning._measured_search import SIMULATORS, SearchRequest, search
from autodist.tuning._measurer import LaunchedMeasurer
from autodist.tuning._open_study import OpenStudy, StudyCallback, create_study
from autodist.tuning._profiling import ProfiledStep, find_profile, profile
from autodist.tuning._search_result import Baseline, SearchObserver, SearchResult
from autodist.tuning._simulated_search import (
    OFFLINE_SIMULATORS,
    OfflineResult,
    captured_graph,
    offline_simulator,
    search_offline,
)
from autodist.tuning._traced_step import TracedStep, timeline
from autodist.tuning._turns import TrialSchedule

__all__ = [
    "OFFLINE_SIMULATORS",
    "SIMULATORS",
    "Baseline",
    "LaunchedMeasurer",
    "OfflineResult",
    "OpenStudy",
    "ProfiledStep",
    "SearchObserver",
    "SearchRequest",
    "SearchResult",
    "StudyCallback",
    "TracedStep",
    "TrialSchedule",
    "captured_graph",
    "create_study",
    "find_profile",
    "offline_simulator",
    "profile",
    "search",
    "search_offline",
    "timeline",
]
