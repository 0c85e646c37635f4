"""What AutoDist adds to a training step on one worker with one replica, where it has nothing to distribute.

The plain step and AutoDist's run in one process, in pairs of blocks. Each has a model of its own, made alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from measuring import Result, Row, alternate, progress, ratio_row, row
from training_steps import training_step

import autodist

LIMIT = "plain tf.function"
MAX_RATIO = 1.05
_MAX_ADDED_MS = 0.5


@dataclass(frozen=True)
class Workload:
    """A model and the shape of its batches."""

    name: str
    features: tuple[int, ...]
    layers: Callable[[], list[Any]]
    batch_size: int
    block: int
    is_tiny: bool = False
    """Whether the step takes a few milliseconds at most, so that the time added tells more than the ratio."""

    def model(self) -> Any:
        """A new model, the same at every call."""
        keras.utils.set_random_seed(0)
        return keras.Sequential([keras.Input(self.features), *self.layers()])

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """A batch of noise."""
        random = np.random.default_rng(0)
        x = random.standard_normal((self.batch_size, *self.features), dtype=np.float32)
        return x, random.integers(0, 10, self.batch_size).astype(np.int32)


def _dense(width: int, depth: int) -> list[Any]:
    return [*(keras.layers.Dense(width, activation="relu") for _ in range(depth)), keras.layers.Dense(10)]


def _convolutional() -> list[Any]:
    layers = keras.layers
    return [
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(32, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]


WORKLOADS = (
    Workload("tiny dense", (32,), lambda: _dense(16, 1), 32, block=100, is_tiny=True),
    Workload("dense 256x4", (256,), lambda: _dense(256, 4), 128, block=30, is_tiny=True),
    Workload("dense 1024x4", (1024,), lambda: _dense(1024, 4), 128, block=8),
    Workload("convnet, 6 MB fed", (128, 128, 3), _convolutional, 32, block=8),
)


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    workloads = WORKLOADS[:1] if quick else WORKLOADS
    pairs = 6 if quick else 10
    rows: list[Row] = []
    for workload in workloads:
        progress(f"step_overhead: {workload.name}")
        for feed in ("NumPy", "tensors"):
            rows += _compared(f"ad.function, {workload.name}, {feed}", workload, *_functions(workload, feed), pairs)
    return Result("step_overhead", tuple(rows), (f"{pairs} alternated pairs of blocks",))


def _compared(
    name: str, workload: Workload, plain: Callable[[], float], ours: Callable[[], float], pairs: int
) -> list[Row]:
    limit, mine = alternate(plain, ours, pairs)
    if not workload.is_tiny:
        times = row(f"{name}: plain step", [t * 1e3 for t in limit], "ms")
        return [times, ratio_row(name, mine, limit, LIMIT, MAX_RATIO)]
    added = [(a - b) * 1e3 for a, b in zip(mine, limit, strict=True)]
    share = ratio_row(f"{name}: ratio", mine, limit, LIMIT)
    times = row(f"{name}: plain step", [t * 1e3 for t in limit], "ms")
    return [times, share, row(f"{name}: added", added, "ms", target=_MAX_ADDED_MS)]


# ad.function ---------------------------------------------------------------------------------------------------------


def _functions(workload: Workload, feed: str) -> tuple[Callable[[], float], Callable[[], float]]:
    """Measure a block of steps of a plain ``tf.function``, and of AutoDist's."""
    batch = workload.batch()
    fed = batch if feed == "NumPy" else tuple(map(tf.constant, batch))
    plain = tf.function(training_step(workload.model()))
    ad = autodist.AutoDist()
    ours = ad.function(training_step(workload.model()))
    return (lambda: _block(plain, fed, workload.block)), (lambda: _scoped_block(ad, ours, fed, workload.block))


def _block(step: Callable[..., Any], batch: tuple[Any, Any], count: int) -> float:
    """Seconds per step; the first, which may trace or move variables, is not counted."""
    step(*batch).numpy()
    started = time.perf_counter()
    for _ in range(count):
        step(*batch).numpy()
    return (time.perf_counter() - started) / count


def _scoped_block(ad: Any, step: Callable[..., Any], batch: tuple[Any, Any], count: int) -> float:
    with ad.scope():
        return _block(step, batch, count)
