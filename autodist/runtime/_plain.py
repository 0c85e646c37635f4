"""Steps on one device that can't be captured: there nothing has to be synchronized, and TensorFlow runs them itself."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from autodist.coordination import Worker
from autodist.errors import AutoDistError, CaptureError, UsageError
from autodist.graph import CapturedStep, NoGradientError, said_in_tracing
from autodist.runtime.data import Arguments

_LOG = logging.getLogger("autodist")


class NotCapturedError(Exception):
    """A step can't be captured, and TensorFlow may run it as it is.

    Args:
        reason: What prevents it; None if the program does not want it to be.
    """

    def __init__(self, reason: Exception | None) -> None:
        super().__init__(str(reason))
        self.reason = reason


class PlainSteps:
    """Which steps of a scope TensorFlow runs as it would without one.

    Args:
        worker: This process.
        is_allowed: Whether there is one device only, and nothing but the results of a step is wanted.

    Attributes:
        is_allowed: As given.
        is_running: Whether such a step is being run.
    """

    def __init__(self, worker: Worker, *, is_allowed: bool) -> None:
        self.is_allowed = is_allowed
        self.is_running = False
        self._worker = worker
        self._refused: dict[Any, NotCapturedError] = {}
        self._said: set[str] = set()

    def check_asks_no_rows(self, captured: CapturedStep) -> None:
        """Refuse a step that asks for its number of rows: when it gets None, it may compute something else.

        Raises:
            CaptureError: It has asked for it, and TensorFlow may run it as it is.
        """
        if self.is_allowed and captured.asking:
            raise CaptureError(f"it asks in Python how many rows there are, at {captured.asking[0]}")

    @contextlib.contextmanager
    def capturing(self, key: Any = None) -> Iterator[None]:
        """Tell what prevents the capture inside from errors of steps that run.

        Args:
            key: Key of the step with arguments of this kind, None where it has none yet.

        Raises:
            NotCapturedError: Something does, and TensorFlow may run the step as it is.
        """
        try:
            yield
        except Exception as error:
            if not self.is_allowed or isinstance(error, NoGradientError) or _is_of_the_run(error):
                raise
            refusal = NotCapturedError(error)
            if key is not None:
                self._refused[key] = refusal
            raise refusal from error

    def call(
        self,
        function: Callable[..., Any],
        flattened: Callable[[], Arguments],
        plain: Callable[[], Any] | None,
        train: Callable[[Arguments], Any],
    ) -> Any:
        """Call a step.

        Args:
            function: The step.
            flattened: Takes its arguments apart.
            plain: Calls it as TensorFlow does without a scope; None if that can't be had.
            train: Captures it if it is new, and runs it.

        Returns:
            What it returns.
        """
        try:
            with self.capturing():
                arguments = flattened()
            if plain is not None:
                self._check(function, arguments)
            return train(arguments)
        except NotCapturedError as error:
            reason = error.reason
        if plain is None:
            assert reason is not None
            raise reason
        if reason is not None:
            self._say(getattr(function, "__name__", "a step"), reason)
        return self.run(plain)

    def _check(self, function: Callable[..., Any], arguments: Arguments) -> None:
        """Go on to capture a step, unless that failed before.

        Raises:
            NotCapturedError: It did, or its Python code is to run in every call, or what it computes to be
                differentiated.
        """
        if not self.is_allowed:
            return
        if _runs_eagerly():
            raise NotCapturedError(None)
        if self._refused and (function, arguments.given) in self._refused:
            raise self._refused[function, arguments.given]

    def run(self, plain: Callable[[], Any]) -> Any:
        """Have TensorFlow run a step as it would without a scope."""
        before, self.is_running = self.is_running, True
        try:
            return plain()
        finally:
            self.is_running = before
            self._worker.steps_taken += 1

    def _say(self, name: str, reason: Exception) -> None:
        if name not in self._said:
            self._said.add(name)
            text = (
                reason.message if isinstance(reason, AutoDistError) else f"tracing it failed: {said_in_tracing(reason)}"
            )
            _LOG.info("`%s` runs on this one device as TensorFlow runs it, it is not captured: %s", name, text)


def _is_of_the_run(error: Exception) -> bool:
    """Whether an error says nothing about the step itself."""
    return isinstance(error, AutoDistError) and not isinstance(error, CaptureError | UsageError)


def _runs_eagerly() -> bool:
    import tensorflow as tf
    from tensorflow.python import pywrap_tfe

    return tf.config.functions_run_eagerly() or not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
