"""What `fit`, `evaluate` and `predict` cost inside a scope on one worker, against the same calls outside.

Both sides run in one process, in pairs of blocks; each has a model of its own, made alike. Beside the clock's ratio
there is that of the processor time of all threads, which other programs on the machine disturb less.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from measuring import Result, Row, alternate, progress, ratio_row, row
from step_overhead import MAX_RATIO, WORKLOADS, Workload

import autodist

_LIMIT = "plain Keras"
_TARGET_FROM_S = 0.02
_CALLS = ("fit", "evaluate", "predict")


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    pairs = 4 if quick else 10
    rows: list[Row] = []
    for workload in WORKLOADS[:1] if quick else WORKLOADS:
        for call in _CALLS:
            progress(f"fit: {call}, {workload.name}")
            rows += _compared(call, workload, pairs)
    notes = (f"{pairs} alternated pairs of blocks, jit_compile=False; per batch, without the first one of a block",)
    return Result("fit", tuple(rows), notes)


@dataclass(frozen=True)
class _Times:
    """Seconds per batch."""

    clock_s: float
    cpu_s: float


def _compared(call: str, workload: Workload, pairs: int) -> list[Row]:
    found: dict[str, list[_Times]] = {"plain": [], "ours": []}
    blocks = _blocks(call, workload)

    def block(side: str) -> float:
        found[side].append(blocks[side]())
        return found[side][-1].clock_s

    block("plain"), block("ours")  # traces, and moves variables
    for times in found.values():
        times.clear()
    plain, ours = alternate(lambda: block("plain"), lambda: block("ours"), pairs)
    plain_cpu, ours_cpu = ([times.cpu_s for times in found[side]] for side in ("plain", "ours"))
    name = f"{call}, {workload.name}"
    target = MAX_RATIO if call == "fit" and statistics.median(plain) >= _TARGET_FROM_S else None
    return [
        row(f"{name}: plain, per batch", [t * 1e3 for t in plain], "ms"),
        ratio_row(f"{name}: by the clock", ours, plain, _LIMIT, target),
        ratio_row(f"{name}: by processor time", ours_cpu, plain_cpu, _LIMIT),
    ]


class _Clock(keras.callbacks.Callback):
    """Notes when each batch ends, by the clock and in processor time."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[tuple[float, float]] = []

    def _note(self, batch: int, logs: Any = None) -> None:
        self._ends.append((time.perf_counter(), time.process_time()))

    on_train_batch_end = on_test_batch_end = on_predict_batch_end = _note

    @property
    def times(self) -> _Times:
        """Per batch, without the first."""
        (clock, cpu), (last_clock, last_cpu) = self._ends[0], self._ends[-1]
        batches = len(self._ends) - 1
        return _Times((last_clock - clock) / batches, (last_cpu - cpu) / batches)


def _blocks(call: str, workload: Workload) -> dict[str, Callable[[], _Times]]:
    """Measure a block of batches of a plain call, and of one in a scope."""
    dataset = tf.data.Dataset.from_tensors(workload.batch()).repeat(workload.block + 1)
    ad = autodist.AutoDist()
    scopes: dict[str, Callable[[], Any]] = {"plain": contextlib.nullcontext, "ours": ad.scope}
    return {
        side: functools.partial(_block, call, _compiled(workload), dataset, scope) for side, scope in scopes.items()
    }


def _compiled(workload: Workload) -> Any:
    model = workload.model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # XLA or not is TensorFlow's affair: both sides run without it.
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=False)
    return model


def _block(call: str, model: Any, dataset: Any, scope: Callable[[], Any]) -> _Times:
    clock = _Clock()
    with scope():
        getattr(model, call)(dataset, verbose=0, callbacks=[clock])
    return clock.times
