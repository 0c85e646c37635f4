"""Calibration by trials: the constants with which the formulas fit measurements best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from autodist.errors import SimulatorError
from autodist.simulator._measured import MeasuredStrategies
from autodist.simulator._message_table import Floats
from autodist.simulator.formulas._analytic import AnalyticSimulator
from autodist.simulator.formulas._calibration import Calibration
from autodist.simulator.formulas._events import EventSimulator

Calibrated = AnalyticSimulator | EventSimulator
_Formulas = TypeVar("_Formulas", bound=Calibrated)
_Logs: TypeAlias = "npt.NDArray[np.float64]"
_Residuals: TypeAlias = Callable[[_Logs], _Logs]

_SPREAD = 0.7
"""Standard deviation of the logarithms of constants around their defaults: a factor of two."""
_SPREADS = {"computation": 0.3, "step_s": 1.5}
"""Other spreads: how long a step computes was measured, or follows from the sizes; and of what it takes besides little
is known, since that is of scripts and of machines."""
_NOISE = 0.1
"""Standard deviation of the logarithms of times due to effects that the formulas leave out."""
_ORIGIN = 10.0
_TOLERANCE = 1e-4
_SHARDS = 60_000
"""The total number of shards in trials above which only some trials are used."""
_LEAST = 20
_ENOUGH = 12
"""The least number of trials of a graph on a cluster from which its constants are fitted."""
_SEVERAL = 3
"""The number of data sets from which on the median of their constants is taken."""


def calibrated(simulator: _Formulas, data: Sequence[MeasuredStrategies]) -> _Formulas:
    """The simulator with the constants that explain measurements best.

    These are the most likely constants, given a prior for each, and an error of a tenth in the logarithm of each
    measured time. So a constant that no trial depends on keeps its value. Several graphs and clusters are fitted one by
    one, and each constant is the median: a cluster that is unlike all others changes little.

    Args:
        simulator: A simulator that uses formulas; its constants are the starting point.
        data: Strategies of graphs on clusters.

    Raises:
        SimulatorError: Nothing is measured.
    """
    if not sum(map(len, data)):
        raise SimulatorError("there is nothing to calibrate by", hint="measure strategies by `autodist search`")
    large = [measured for measured in data if len(measured) >= _ENOUGH]
    if len(large) < _SEVERAL:
        return _calibrated_together(simulator, data)
    found = [_calibrated_together(simulator, [measured]).calibration for measured in large]
    names = [field.name for field in fields(Calibration)]
    logs = np.log([[max(getattr(one, name), 1e-9) for name in names] for one in found])
    return replace(
        simulator, calibration=Calibration(**dict(zip(names, np.exp(np.median(logs, 0)).tolist(), strict=True)))
    )


def _calibrated_together(simulator: _Formulas, data: Sequence[MeasuredStrategies]) -> _Formulas:
    """The constants that explain all of the trials best."""
    names = [field.name for field in fields(Calibration)]
    prior = np.log([max(getattr(simulator.calibration, name), 1e-9) for name in names])

    def moved(logs: _Logs) -> _Formulas:
        constants = dict(zip(names, np.exp(prior + logs).tolist(), strict=True))
        return replace(simulator, calibration=Calibration(**constants))

    spreads = np.array([_SPREADS.get(name, _SPREAD) for name in names])
    return moved(_fitted(_residuals(moved, _thinned(data), spreads), len(names)))


def _thinned(data: Sequence[MeasuredStrategies]) -> list[MeasuredStrategies]:
    """Some of the trials, if there are many."""
    trials, shards = sum(map(len, data)), sum(len(measured.table) for measured in data)
    every = -(-trials // max(_LEAST, trials * _SHARDS // max(1, shards)))
    return [measured.take(np.arange(0, len(measured), every, dtype=np.int32)) for measured in data if len(measured)]


def _fitted(residuals: _Residuals, num_constants: int) -> _Logs:
    from scipy.optimize import least_squares

    # Steps of finite differences are relative to the point, which must not be 0; scores have single precision.
    found = least_squares(
        lambda point: residuals(point - _ORIGIN),
        np.full(num_constants, _ORIGIN),
        loss="soft_l1",
        diff_step=1e-3,
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
    )
    logs: _Logs = found.x - _ORIGIN
    return logs


def _residuals(moved: Callable[[_Logs], Calibrated], data: Sequence[MeasuredStrategies], spreads: _Logs) -> _Residuals:
    def residuals(logs: _Logs) -> _Logs:
        simulator = moved(logs)
        errors = [_log_error(simulator, measured) / _NOISE for measured in data if len(measured)]
        return np.concatenate([*errors, logs / spreads])

    return residuals


def _log_error(simulator: Calibrated, measured: MeasuredStrategies) -> Floats:
    scores = simulator.score(measured.table, measured.domain, len(measured))
    error: Floats = np.log(np.maximum(scores, 1e-9)) - np.log(measured.step_s)
    return error
