"""Calibration by trials: the constants with which the formulas come nearest to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from autodist.errors import SimulatorError
from autodist.simulator._analytic import AnalyticSimulator
from autodist.simulator._calibration import Calibration
from autodist.simulator._events import EventSimulator
from autodist.simulator._measured import Measured
from autodist.simulator._table import Floats

__all__ = ["Calibrated", "calibrated"]

Calibrated = AnalyticSimulator | EventSimulator
_Formulas = TypeVar("_Formulas", bound=Calibrated)
_Logs: TypeAlias = "npt.NDArray[np.float64]"

_SPREAD = 1.5
"""Of the logarithms of constants around what is assumed of them without trials."""
_NOISE = 0.1
"""Of the logarithms of times: what the formulas can't know of."""
_ORIGIN = 10.0


def calibrated(simulator: _Formulas, data: Sequence[Measured]) -> _Formulas:
    """The simulator with the constants that explain best what was measured.

    The most likely ones, if the logarithm of each is known beforehand to about a factor of five, and that of each
    measured time is off by a tenth: so a constant that the trials say nothing of stays as it was.

    Args:
        simulator: Of formulas; its constants are the beginning.
        data: Strategies of one cluster or of several that are alike in their constants.

    Raises:
        SimulatorError: Nothing is measured.

    """
    from scipy.optimize import least_squares

    if not sum(map(len, data)):
        raise SimulatorError("there is nothing to calibrate by", hint="measure strategies by `autodist search`")
    names = [field.name for field in fields(Calibration)]
    prior = np.log([max(getattr(simulator.calibration, name), 1e-9) for name in names])

    def moved(logs: _Logs) -> _Formulas:
        constants = dict(zip(names, np.exp(prior + logs).tolist(), strict=True))
        return replace(simulator, calibration=Calibration(**constants))

    residuals = _residuals(moved, data)
    # Steps of differences are shares of the point, which must not be 0 then; scores have single precision.
    found = least_squares(
        lambda point: residuals(point - _ORIGIN), np.full(len(names), _ORIGIN), loss="soft_l1", diff_step=1e-3
    )
    return moved(found.x - _ORIGIN)


def _residuals(moved: Callable[[_Logs], Calibrated], data: Sequence[Measured]) -> Callable[[_Logs], _Logs]:
    def residuals(logs: _Logs) -> _Logs:
        simulator = moved(logs)
        errors = [_log_error(simulator, measured) / _NOISE for measured in data if len(measured)]
        return np.concatenate([*errors, logs / _SPREAD])

    return residuals


def _log_error(simulator: Calibrated, measured: Measured) -> Floats:
    scores = simulator.score(measured.table, measured.domain, len(measured))
    error: Floats = np.log(np.maximum(scores, 1e-9)) - np.log(measured.step_s)
    return error
