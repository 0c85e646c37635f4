"""Keras' ``evaluate`` and ``predict`` inside a scope: the replicas share each batch, where that gives the same."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autodist.errors import UsageError
from autodist.graph import Patches
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime._unshared import NotSharedError
from autodist.runtime.data import Declared, ShardedDataset, drawn_parts, has_unseeded_shuffle
from autodist.runtime.keras._files_aside import FilesAside
from autodist.runtime.keras._fit_position import without_optionals
from autodist.runtime.keras._keras_steps import last_of_call, one_more, step_of


def hook_evaluation(patches: Patches, engine: Engine | ReferenceEngine, files: FilesAside) -> None:
    """Have ``evaluate``, ``predict`` and their ``_on_batch`` use the engine.

    Args:
        patches: Where to register.
        engine: Runs the steps that can be shared.
        files: Where callbacks of other workers than the chief write.
    """
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    hooks = _EvaluationHooks(engine, files)
    patches.callback(hooks.forget)
    patches.replace(TensorFlowTrainer, "make_test_function", hooks.making("test_function", _TestFunction))
    patches.replace(TensorFlowTrainer, "make_predict_function", hooks.making("predict_function", _PredictFunction))
    patches.replace(TensorFlowTrainer, "evaluate", hooks.call)
    patches.replace(TensorFlowTrainer, "predict", hooks.call)


class _EvaluationHooks:
    """Replacements of methods of Keras' trainer, and their common state."""

    def __init__(self, engine: Engine | ReferenceEngine, files: FilesAside) -> None:
        self._engine = engine
        self._files = files
        self._made: list[tuple[Any, str]] = []
        self._order_differs = False
        """Whether the data of the running call come in another order on every worker."""
        self._calls = 0
        """How many calls of ``evaluate`` and ``predict`` are going on."""

    def forget(self) -> None:
        """Give models Keras' own functions back."""
        for model, name in self._made:
            function = getattr(model, name)
            if isinstance(function, _SharedFunction):
                setattr(model, name, function.whole)

    def making(self, name: str, kind: type[_SharedFunction]) -> Callable[[Any], Any]:
        """The replacement of the method that makes a model's function of this name."""

        def wrap(original: Any) -> Any:
            @functools.wraps(original)
            def make(model: Any, force: bool = False) -> Any:
                original(model, force)
                made = getattr(model, name)
                if not model.run_eagerly and not isinstance(made, _SharedFunction):
                    setattr(model, name, kind(model, made, self._engine, self._check))
                    self._made.append((model, name))
                return getattr(model, name)

            return make

        return wrap

    def call(self, original: Any) -> Any:
        """``evaluate`` or ``predict``; only the chief shows progress."""

        @functools.wraps(original)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(original).bind(model, *args, **kwargs)
            data = bound.arguments.get("x")
            _check_not_sharded(data, original.__name__)
            if not self._engine.worker.is_chief and bound.arguments.get("verbose", "auto") == "auto":
                bound.arguments["verbose"] = 0
            with self._looking_at(data), self._writing_aside(bound.arguments.get("callbacks")):
                if not self._engine.can_share or self._order_differs:
                    return original(*bound.args, **bound.kwargs)
                self._engine.gather("evaluates or predicts")
                found = original(*bound.args, **bound.kwargs)
                if "_use_cached_eval_dataset" not in kwargs:  # `fit` looks after its own
                    self._engine.check_batches()
                return found

        return call

    def _writing_aside(self, callbacks: Any) -> Any:
        import keras

        from autodist.runtime.keras._fit_callbacks import writing_aside

        is_of_fit = isinstance(callbacks, keras.callbacks.CallbackList)
        return writing_aside([] if is_of_fit or callbacks is None else keras.tree.flatten(callbacks), self._files)

    @contextlib.contextmanager
    def _looking_at(self, data: Any) -> Iterator[None]:
        import tensorflow as tf

        before = self._order_differs
        self._order_differs = isinstance(data, tf.data.Dataset) and _differs(data)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._order_differs = before

    def _check(self) -> bool:
        """Whether the replicas can share the next batch.

        Raises:
            UsageError: It is only a part of a batch.
        """
        engine = self._engine
        if not self._calls and engine.local_batches.is_pending and engine.worker.world_size > 1:
            raise UsageError(
                "a loop over `ad.shard(dataset)` evaluates or predicts batch by batch, but has only this worker's part "
                "of each batch",
                hint="loop over the dataset itself, `for x, y in dataset: model.test_on_batch(x, y)`: the workers "
                "share each batch anyway",
            )
        return engine.can_share and not self._order_differs


def _differs(dataset: Any) -> bool:
    """Whether each worker has different batches, because of their order or of random numbers."""
    return has_unseeded_shuffle(dataset) or any(drawn_parts(dataset))


def _check_not_sharded(data: Any, name: str) -> None:
    if isinstance(data, ShardedDataset):
        raise UsageError(
            f"`{name}` was given `ad.shard(dataset)`, it takes the dataset itself",
            hint="leave `ad.shard` out: the workers share each batch of the dataset anyway",
        )


class _SharedFunction:
    """One of a model's functions: shared where it can be, else Keras' own.

    Args:
        model: The model.
        whole: Keras' own function.
        engine: Runs the steps that can be shared.
        is_shared: Whether the replicas can share the next batch.
    """

    def __init__(self, model: Any, whole: Any, engine: Engine | ReferenceEngine, is_shared: Callable[[], bool]) -> None:
        self.whole = whole
        self._model = model
        self._engine = engine
        self._is_shared = is_shared


class _TestFunction(_SharedFunction):
    """The function that ``evaluate`` calls once per ``steps_per_execution`` batches, with an iterator of batches."""

    def __call__(self, iterator: Any) -> Any:
        if not self._is_shared():
            return self.whole(iterator)
        declared = Declared.of(getattr(iterator, "element_spec", ()))
        tested = functools.partial(self._tested, iterator=iterator, declared=declared)
        return last_of_call(iterator, self._model.steps_per_execution, tested)

    def _tested(self, batch: Any, iterator: Any, declared: Declared) -> Any:
        try:
            return self._engine.run_shared(self._step, without_optionals(batch), declared=declared)
        except NotSharedError:
            return self.whole(one_more(iterator, batch))

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        return step_of(self._model, "test_step")


class _PredictFunction(_SharedFunction):
    """The function that ``predict`` calls with ``steps_per_execution`` batches."""

    def __call__(self, batches: Sequence[Any]) -> Any:
        if not self._is_shared():
            return self.whole(batches)
        try:
            outputs = [self._engine.run_shared(self._step, without_optionals(batch)) for batch in batches]
        except NotSharedError:
            return self.whole(batches)
        return outputs[0] if len(outputs) == 1 else _concatenated(outputs)

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        return step_of(self._model, "predict_step")


def _concatenated(outputs: Sequence[Any]) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *outputs)
