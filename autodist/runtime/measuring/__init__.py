"""Measurements: steps profiled and traced, and the trials that a search orders."""

from autodist.runtime.measuring._ordered_trials import ORDERED, TrialKeys, Trials
from autodist.runtime.measuring._step_profiler import ProfileOrder, StepProfiler

__all__ = [
    "ORDERED",
    "ProfileOrder",
    "StepProfiler",
    "TrialKeys",
    "Trials",
]
