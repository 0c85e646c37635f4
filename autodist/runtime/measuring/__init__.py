"""Measurements: steps profiled and traced, and the trials that a search orders."""

from autodist.runtime.measuring._ordered_trials import ORDERED, TrialKeys
from autodist.runtime.measuring._step_profiler import ProfileOrder, StepProfiler
from autodist.runtime.measuring._trial_engine import engine_class

__all__ = [
    "ORDERED",
    "ProfileOrder",
    "StepProfiler",
    "TrialKeys",
    "engine_class",
]
