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
_Residuals: TypeAlias = Callable[[_Logs], _Logs]

_SPREAD = 1.5
"""Of the logarithms of constants around what is assumed of them without trials."""
_NOISE = 0.1
"""Of the logarithms of times: what the formulas can't know of."""
_ORIGIN = 10.0
_TOLERANCE = 1e-4
_BEGINNINGS = ((1.0, 0.0), (4.0, 0.0), (1.0, 0.25), (0.25, 0.5))
"""Factors of the computation, and which share of the fastest step is what every step takes besides; 0 for what is
assumed without trials."""
_ROUGH = 6
"""Evaluations of a fit, until it is known which beginning is the best."""
_ROUGH_SHARDS, _SHARDS = 5_000, 60_000
"""Of so many shards in all, trials are enough: for that, and at all."""
_LEAST = 20


def calibrated(simulator: _Formulas, data: Sequence[Measured]) -> _Formulas:
    """The simulator with the constants that explain best what was measured.

    The most likely ones, if the logarithm of each is known beforehand to about a factor of five, and that of each
    measured time is off by a tenth: so a constant that the trials say nothing of stays as it was. Steps take as long as
    what takes longest, so there are several best ones near by: in one, a long computation hides most messages, in
    another, what every step takes besides is long, and all messages show. So the search begins at several places.

    Args:
        simulator: Of formulas; its constants are the beginning.
        data: Strategies of one cluster or of several that are alike in their constants.

    Raises:
        SimulatorError: Nothing is measured.

    """
    if not sum(map(len, data)):
        raise SimulatorError("there is nothing to calibrate by", hint="measure strategies by `autodist search`")
    names = [field.name for field in fields(Calibration)]
    prior = np.log([max(getattr(simulator.calibration, name), 1e-9) for name in names])

    def moved(logs: _Logs) -> _Formulas:
        constants = dict(zip(names, np.exp(prior + logs).tolist(), strict=True))
        return replace(simulator, calibration=Calibration(**constants))

    few, enough = (_residuals(moved, _thinned(data, most)) for most in (_ROUGH_SHARDS, _SHARDS))
    step_s, computation = names.index("step_s"), names.index("computation")
    fastest_s = min(float(measured.step_s.min()) for measured in data if len(measured))
    fits = []
    for factor, share in _BEGINNINGS:
        start = np.zeros(len(names))
        start[computation] = np.log(factor)
        start[step_s] = np.log(share * fastest_s) - prior[step_s] if share else 0.0
        fits.append(_fitted(few, start, _ROUGH))
    best, _ = min(fits, key=lambda fit: fit[1])
    return moved(_fitted(enough, best)[0])


def _thinned(data: Sequence[Measured], most_shards: int) -> list[Measured]:
    """Some of the trials, if there are many."""
    trials, shards = sum(map(len, data)), sum(len(measured.table) for measured in data)
    every = -(-trials // max(_LEAST, trials * most_shards // max(1, shards)))
    return [measured.take(np.arange(0, len(measured), every, dtype=np.int32)) for measured in data if len(measured)]


def _fitted(residuals: _Residuals, start: _Logs, most: int | None = None) -> tuple[_Logs, float]:
    """The nearest minimum, and what is left there."""
    from scipy.optimize import least_squares

    # Steps of differences are shares of the point, which must not be 0 then; scores have single precision.
    found = least_squares(
        lambda point: residuals(point - _ORIGIN),
        start + _ORIGIN,
        loss="soft_l1",
        diff_step=1e-3,
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        max_nfev=most,
    )
    return found.x - _ORIGIN, float(found.cost)


def _residuals(moved: Callable[[_Logs], Calibrated], data: Sequence[Measured]) -> _Residuals:
    def residuals(logs: _Logs) -> _Logs:
        simulator = moved(logs)
        errors = [_log_error(simulator, measured) / _NOISE for measured in data if len(measured)]
        return np.concatenate([*errors, logs / _SPREAD])

    return residuals


def _log_error(simulator: Calibrated, measured: Measured) -> Floats:
    scores = simulator.score(measured.table, measured.domain, len(measured))
    error: Floats = np.log(np.maximum(scores, 1e-9)) - np.log(measured.step_s)
    return error
