"""The data of the training that faults happen to, and the weights that it has after each step without any.

It is small enough to be computed by NumPy: so what a run with faults ends with is compared with the training that
nothing has disturbed, after however many steps it was ended.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

__all__ = ["BATCH", "MOMENTUM", "RATE", "begin", "data", "weights_after"]

BATCH = 12  # it is divided evenly by two, three and four workers
RATE = 0.02
MOMENTUM = 0.9
_ROWS = 20 * BATCH
_WIDTH = 16
_OUTPUTS = 8

Array = npt.NDArray[np.float32]


@functools.cache
def data() -> tuple[Array, Array]:
    """Inputs and targets, which come again after twenty steps."""
    random = np.random.default_rng(7)
    x = random.normal(size=(_ROWS, _WIDTH)).astype(np.float32)
    y = np.sin(x[:, :_OUTPUTS] + x[:, _OUTPUTS:]).astype(np.float32)
    return x, y


def begin() -> Array:
    """The weights before the first step."""
    return np.random.default_rng(8).normal(size=(_WIDTH, _OUTPUTS)).astype(np.float32)


def weights_after(steps: int) -> npt.NDArray[np.float64]:
    """The weights after some steps of gradient descent with momentum, on one device and undisturbed."""
    x, y = (part.astype(np.float64) for part in data())
    weights, velocity = begin().astype(np.float64), np.zeros((_WIDTH, _OUTPUTS))
    for step in range(steps):
        rows = slice(step * BATCH % _ROWS, step * BATCH % _ROWS + BATCH)
        gradient = 2.0 * x[rows].T @ (x[rows] @ weights - y[rows]) / (BATCH * _OUTPUTS)
        velocity = MOMENTUM * velocity - RATE * gradient
        weights = weights + velocity
    return weights
