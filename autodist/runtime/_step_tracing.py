"""Tracing of steps: for any number of rows, for just one, or for arguments of just their shapes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autodist.coordination import Worker
from autodist.errors import AutoDistError, FixedRowsError
from autodist.graph import CapturedStep, NoGradientError, VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.runtime._part_checks import PartChecks
from autodist.runtime.data import Arguments, Convention
from autodist.runtime.state import StateStore

_LOG = logging.getLogger("autodist")


class StepTracing:
    """Traces the steps of one scope.

    Args:
        worker: This process.
        spec: The cluster.
        convention: What a batch and a loss mean.
        state: The scope's variables.
        warn: Has the chief warn of something once.
        may_run_plainly: Whether TensorFlow may run a step that can't be captured for any number of rows.

    Attributes:
        names: The variables' names.
    """

    def __init__(
        self,
        worker: Worker,
        spec: ResourceSpec,
        convention: Convention,
        state: StateStore,
        warn: Callable[[str], None],
        *,
        may_run_plainly: bool = False,
    ) -> None:
        self.names = VariableNames()
        self._may_run_plainly = may_run_plainly
        self._worker = worker
        self._spec = spec
        self._convention = convention
        self._state = state
        self._warn = warn
        self._parts = PartChecks(len(spec.replicas), are_planned=convention.gradient_reduction == "auto")

    def whole(self, function: Callable[..., Any], arguments: Arguments) -> CapturedStep:
        """Trace a function for arguments of just these shapes, none of which is split.

        Args:
            function: The function.
            arguments: Those of its first call.

        Raises:
            CaptureError: It can't be captured.
        """
        self._state.pull_all()  # tracing may build layers from current values
        return capture(arguments.bind(function), arguments.specs(), self.names, split=arguments.split, fixed=True)

    def capture(self, function: Callable[..., Any], arguments: Arguments, *, local: bool) -> CapturedStep:
        """Trace a step for arguments of this kind.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch.

        Raises:
            NoGradientError: It is not a training step.
            CaptureError: It can't be captured.
        """
        try:
            captured = self.any_rows(function, arguments, local=local)
            check_trains(function, captured)
            self.check_parts(captured, arguments, local=local)
        except FixedRowsError as error:
            if arguments.ties:
                raise
            return self.capture_fixed(function, arguments, error, local=local)
        if captured.asking and not self._may_run_plainly:
            if arguments.ties:
                raise _of_asking(captured)
            try:
                return self.capture_fixed(function, arguments, _of_asking(captured), local=local)
            except FixedRowsError as error:
                if self._convention.gradient_reduction == "auto":
                    raise
                self._warn(error.message)
        return captured

    def capture_fixed(
        self, function: Callable[..., Any], arguments: Arguments, reason: FixedRowsError, *, local: bool
    ) -> CapturedStep:
        """Trace a step for batches of exactly this number of rows; replicas get what it needs from the whole batch.

        Args:
            function: The step.
            arguments: Those of its first call.
            reason: Why it can't be traced for any number of rows.
            local: Whether they are this worker's part of the global batch.

        Raises:
            FixedRowsError: The reason, if the number is not known, or replicas could not share such a step.
        """
        rows = self.rows_of(arguments, local=local)
        are_apart = len(self._spec.replicas) > 1 and self._convention.gradient_reduction != "auto"
        if rows is None or self._may_run_plainly or are_apart:
            raise reason
        try:
            captured = self.any_rows(function, arguments, local=local, fixed=rows)
        except Exception as error:
            if isinstance(error, AutoDistError):
                raise
            raise reason from error  # one device could not do it either; the reason says more than TensorFlow does
        check_trains(function, captured)
        if self._worker.is_chief:
            _LOG.info(
                "a step is traced for batches of %d rows, and again for each other number: %s", rows, reason.message
            )
        return replace(captured, reason=reason)

    def check_parts(self, captured: CapturedStep, arguments: Arguments, *, local: bool) -> None:
        """Refuse what replicas can't do with their parts of a batch; see :meth:`capture` for the arguments.

        Raises:
            CaptureError: There is such a thing.
        """
        self._parts.check(captured, arguments, self._batch_size(arguments, local))

    def any_rows(
        self, function: Callable[..., Any], arguments: Arguments, *, local: bool, fixed: int | None = None
    ) -> CapturedStep:
        """Trace a step, for any number of rows or for a fixed one.

        Args:
            function: The step.
            arguments: Those of its first call.
            local: Whether they are this worker's part of the global batch.
            fixed: How many rows it has; None for any number.

        Raises:
            CaptureError: It can't be captured.
        """
        self._state.pull_all()  # tracing may build layers from current values
        rows = self._batch_size(arguments, local) if fixed is None else fixed
        captured = capture(
            arguments.bind(function),
            arguments.specs(fixed),
            self.names,
            split=arguments.split,
            synchronized_batch_norm=self._convention.batch_norm == "synchronized",
            rows=None if arguments.has_open_rows else rows,
            fixed=fixed is not None,
            lengths=arguments.lengths,
        )
        return captured.with_batch_size(rows)

    def rows_of(self, arguments: Arguments, *, local: bool) -> int | None:
        """How many rows the global batch has; None where this worker can't know.

        Args:
            arguments: Those of a call.
            local: Whether they are this worker's part of it.
        """
        is_unknown = arguments.global_rows is None and local and self._worker.world_size > 1
        return None if is_unknown else self._batch_size(arguments, local)

    def _batch_size(self, arguments: Arguments, local: bool) -> int | None:
        """Examples in the global batch; if a local one does not say, all workers are assumed to have as many."""
        if arguments.global_rows is not None or not arguments.batch:
            return arguments.global_rows
        return len(arguments.batch[0]) * (self._worker.world_size if local else 1)


def check_trains(function: Callable[..., Any], captured: CapturedStep) -> None:
    """Check that a step takes gradients with respect to variables.

    Raises:
        NoGradientError: It does not.
    """
    if not captured.graph.trainable:
        raise NoGradientError(
            f"`{getattr(function, '__name__', function)}` takes no gradient with respect to a variable",
            hint="a training step differentiates its loss by `tf.GradientTape.gradient` and applies the result",
        )


def _of_asking(captured: CapturedStep) -> FixedRowsError:
    """The error for a step that asks in Python for its number of rows, which tracing leaves open."""
    return FixedRowsError(
        f"the step asks in Python for the number of rows of its batch, at {', '.join(captured.asking)}. It gets None, "
        f"where one device has {captured.graph.batch_size}, because replicas get parts of each batch, and is another "
        "step by that: write `tf.shape(x)[0]` for the number of rows, and -1 in its place in `tf.reshape`"
    )
