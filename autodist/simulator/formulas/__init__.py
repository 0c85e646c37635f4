"""Simulators that use formulas: that of the thesis, the one that follows a step in time, and their constants."""

from autodist.simulator.formulas._analytic import AnalyticSimulator
from autodist.simulator.formulas._calibration import Calibration
from autodist.simulator.formulas._events import EventSimulator, link_loads
from autodist.simulator.formulas._fitting import Calibrated, calibrated
from autodist.simulator.formulas._indifferent import IndifferentSimulator

__all__ = [
    "AnalyticSimulator",
    "Calibrated",
    "Calibration",
    "EventSimulator",
    "IndifferentSimulator",
    "calibrated",
    "link_loads",
]
