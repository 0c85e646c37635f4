"""Steps that train nothing: the replicas of the last training step share their batches."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from autodist.coordination import Worker
from autodist.errors import CaptureError, UsageError
from autodist.runtime._compile import Compiler
from autodist.runtime._execution import Execution
from autodist.runtime._small_batches import SmallBatches
from autodist.runtime._step import CompiledStep
from autodist.runtime._unshared import NotSharedError
from autodist.runtime.data import Arguments, ArgumentSplits, Convention, Declared, LocalArray, flatten, flatten_batch

_LOG = logging.getLogger("autodist")


class SharedSteps:
    """Runs the evaluations and predictions of a scope whose batches the replicas share.

    Args:
        worker: This process.
        execution: Runs compiled steps.
        compiler: Returns the current compiler.
        convention: What a batch means.
        splits: Which arguments of calls are split.
        small_batches: Finds the steps whose examples replicas share.
    """

    def __init__(
        self,
        worker: Worker,
        execution: Execution,
        compiler: Callable[[], Compiler],
        convention: Convention,
        splits: ArgumentSplits,
        small_batches: SmallBatches,
    ) -> None:
        self._worker = worker
        self._execution = execution
        self._compiler = compiler
        self._convention = convention
        self._splits = splits
        self._small_batches = small_batches
        self._not_shared: dict[Any, NotSharedError] = {}

    @property
    def can_share(self) -> bool:
        """Whether the replicas can share the batches: from the first training step on."""
        is_wanted = self._convention.evaluation == "shared" and self._convention.batch == "global"
        return is_wanted and self._splits.num_replicas > 1 and self._compiler().can_share

    def run(self, function: Callable[..., Any], batch: Any, declared: Declared) -> Any:
        """Run a step of Keras on a batch that the replicas share; all workers must take it.

        Args:
            function: The step.
            batch: Its argument.
            declared: The shapes with which one device would trace it.

        Returns:
            The step's result for the whole batch, on every worker.

        Raises:
            NotSharedError: The result would differ from that of one device; every worker is to run the whole step.
            UsageError: The workers have different batches.
            WorkerFailed: Another worker is gone.
        """
        try:
            given = flatten_batch(batch, declared=declared)
        except UsageError as error:
            raise NotSharedError(error.message) from error
        if given.composites:
            raise NotSharedError(f"they have a {given.composites[0][1].kind}")
        place = ("shared", function)
        arguments = self._splits.of(place, given)
        found = self._small_batches.ready(
            place,
            arguments,
            lambda compiler, given, rows: compiler.capture_examples(function, given, rows, trains=False),
            lambda captured, given: self._compiler().compile_untrained(captured, given),
        )
        step, arguments = found or self._splits.traced(place, arguments, functools.partial(self._step, function))
        if not self._execution.is_settled:
            self._execution.settle()
        return step.result(self._execution.run(step, arguments, local=False, trains=False))

    def _step(self, function: Callable[..., Any], arguments: Arguments) -> CompiledStep:
        key = (("shared", function), arguments.key)
        if key in self._not_shared:
            raise self._not_shared[key]
        if key not in self._execution.steps:
            self._execution.steps[key] = self._compile(key, function, arguments)
        step = self._execution.steps[key]
        step.captured.check_lengths([array.shape for array in arguments.arrays])
        try:
            self._compiler().tracing.check_parts(step.captured, arguments, local=False)
        except CaptureError as error:
            self._not_shared[key] = NotSharedError(error.message)
            raise self._not_shared[key] from error
        return step

    def _compile(self, key: Any, function: Callable[..., Any], arguments: Arguments) -> CompiledStep:
        self._execution.settle()
        try:
            return self._compiler().compile_shared(function, arguments)
        except NotSharedError as error:
            self._not_shared[key] = error
            _LOG.info("evaluation or prediction: every worker takes whole batches, because %s", error.message)
            raise

    def any_worker(self, flag: bool) -> bool:
        """Whether the flag is set on any worker; all must call this. Costs as little as joining one number in a step.

        Where that is not possible, as before the first training step, it is True.
        """
        found = self.joined(flag)
        return found is None or found

    def joined(self, flag: bool) -> bool | None:
        """Whether the flag is set on any worker; None before the first step, or if a worker has no replicas."""
        if not self._compiler().can_share:
            return None
        arguments = flatten((np.full([1], flag, np.float32).view(LocalArray),), {})
        if _sum not in self._execution.steps:
            self._execution.steps[_sum] = self._compiler().compile_shared(_sum, arguments, local=True)
        step = self._execution.steps[_sum]
        if len(step.graph.layout.senders) < self._worker.world_size:
            return None  # a worker without replicas has no part in what is joined
        return bool(self._execution.joins(step, arguments) > 0)


def _sum(flags: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(flags)
