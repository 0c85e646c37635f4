"""The undistributed twin of the engine: runs the steps of a scope as plain TensorFlow, and records them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from autodist.coordination import Worker
from autodist.errors import FixedRowsError
from autodist.graph import CapturedStep, NoGradientError, VariableNames, capture
from autodist.runtime._recorder import Recorder
from autodist.runtime.data import NOTHING_DECLARED, Arguments, Declared, LocalBatches, flatten, flatten_batch
from autodist.runtime.session import keep_orderings_in_functions
from autodist.runtime.state import StateStore


class ReferenceEngine:
    """Has the engine's interface; a step is a ``tf.function`` on one device.

    It traces steps as the engine does, but only to learn the names of their variables.
    """

    num_replicas = 1
    can_share = False
    runs_plainly = False

    def __init__(self, worker: Worker, recorder: Recorder) -> None:
        self.worker = worker
        self.state = StateStore(worker)
        self.strategies: tuple[Any, ...] = ()
        self.local_batches = LocalBatches(worker, "reference")
        self._recorder = recorder
        self._names = VariableNames()
        self._steps: dict[Any, tuple[CapturedStep, Any]] = {}
        keep_orderings_in_functions()

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        plain: Any = None,
        *,
        declared: Declared = NOTHING_DECLARED,
    ) -> Any:
        """Run a training step."""
        return self._run(function, flatten(args, kwargs), args, kwargs)

    def run_batch(
        self, function: Callable[..., Any], batch: Any, plain: Any = None, *, declared: Declared = NOTHING_DECLARED
    ) -> Any:
        """Run a training step that takes one structure of arrays."""
        return self._run(function, flatten_batch(batch), (batch,), {})

    def run_shared(self, function: Callable[..., Any], batch: Any, *, declared: Declared = NOTHING_DECLARED) -> Any:
        """There is no other worker to share with."""
        raise NotImplementedError

    def run_untrained(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """No other worker has a part of a batch."""
        raise NotImplementedError

    def run_arrays(
        self, function: Callable[..., Any], args: Any, kwargs: Any, plain: Callable[[], Any], dims: Any
    ) -> Any:
        """Run a function of arrays as it is."""
        return plain()

    def check_batches(self) -> None:
        """There are no other workers."""

    def gather(self, place: str = "") -> None:
        """There is no other worker to wait for."""

    def settle(self) -> None:
        """Nothing is on its way."""

    @contextlib.contextmanager
    def standstill(self) -> Iterator[None]:
        """Nothing changes between steps."""
        yield

    def close(self) -> None:
        """Nothing to bring back."""

    def abandon(self) -> None:
        """Nothing to bring back."""

    def _captured(self, function: Callable[..., Any], arguments: Arguments) -> CapturedStep:
        try:
            return capture(arguments.bind(function), arguments.specs(), self._names)
        except FixedRowsError:  # one that is for this number of rows only
            return capture(arguments.bind(function), arguments.specs(), self._names, fixed=True)

    def _run(
        self, function: Callable[..., Any], arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        import tensorflow as tf

        key = (function, arguments.key)
        if key not in self._steps:
            captured = self._captured(function, arguments)
            if not captured.graph.trainable:
                raise NoGradientError(f"`{function}` takes no gradient")
            roles = {v.name: v.role.value for v in captured.graph.variables}
            self._recorder.add_variables(captured.handles, roles)
            self._steps[key] = (captured, tf.function(arguments.bind(function)))
        _, step = self._steps[key]
        outputs = step.get_concrete_function(*arguments.specs())(*map(tf.convert_to_tensor, arguments.arrays))
        self.worker.steps_taken += 1
        flat = [leaf for leaf in tf.nest.flatten(outputs, expand_composites=True) if tf.is_tensor(leaf)]
        self._recorder.step([leaf.numpy() for leaf in flat], self.worker.rank, lambda: None)
        return outputs
