"""Keras 2, the package ``tf_keras``, inside a scope: its ``fit`` and its optimizers."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from autodist.after_import import after_import
from autodist.errors import UsageError
from autodist.graph import Patches
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime.data import ShardedDataset
from autodist.runtime.hooks import eagerly_alike
from autodist.runtime.keras._files_aside import FilesAside
from autodist.runtime.keras._fit import Batches, FitHooks, TrainFunction
from autodist.runtime.keras._fit_position import FitFollower


def hook_keras2(
    patches: Patches, engine: Engine | ReferenceEngine, shard: Callable[[Any], ShardedDataset], files: FilesAside
) -> None:
    """Have Keras 2 train through the engine, as soon as the program has imported it.

    Args:
        patches: Where to register.
        engine: Runs the training steps.
        shard: Makes a dataset deliver this worker's part of each batch.
        files: Where callbacks of other workers than the chief write.
    """

    def hook(keras2: ModuleType) -> None:
        hooks = _Fit2Hooks(engine, shard, files)
        patches.callback(hooks.forget)
        patches.replace(keras2.Model, "make_train_function", hooks.make_train_function)
        patches.replace(keras2.Model, "fit", hooks.fit)
        for optimizer in (keras2.optimizers.Optimizer, keras2.optimizers.legacy.Optimizer):
            patches.replace(optimizer, "apply_gradients", eagerly_alike(engine))

    patches.callback(after_import("tf_keras", hook))


class _Fit2Hooks(FitHooks):
    """Hooks as for Keras 3, except for how ``fit`` gets its batches."""

    def train_function(self, model: Any) -> TrainFunction:
        """The function that ``fit`` calls with an iterator."""
        return _Train2Function(model, self._engine)

    def fit(self, original: Any) -> Any:
        """``fit`` that shards its dataset; only the chief shows progress."""

        @functools.wraps(original)
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            bound = inspect.signature(original).bind(model, *args, **kwargs)
            arguments = bound.arguments
            _refuse_followers(arguments.get("callbacks"))
            if not self._engine.worker.is_chief and arguments.get("verbose", "auto") == "auto":
                arguments["verbose"] = 0
            with contextlib.ExitStack() as stack:
                if isinstance(arguments.get("x"), tf.data.Dataset | ShardedDataset):
                    sharded = self._shard(arguments["x"])
                    arguments["x"] = sharded.dataset
                    stack.enter_context(self._given(model, sharded))
                history = original(*bound.args, **bound.kwargs)
            self._engine.settle()
            return history

        return fit

    @contextlib.contextmanager
    def _batches_of(self, sharded: ShardedDataset) -> Iterator[None]:
        """Have the handler of the training data take its batches from where the workers go on together."""
        data_adapter: Any = importlib.import_module("tf_keras.src.engine.data_adapter")
        original = data_adapter.get_data_handler

        def first(*args: Any, **kwargs: Any) -> Any:
            data_adapter.get_data_handler = original  # the next one is that of the validation data
            handler = original(*args, **kwargs)
            if sharded.may_end_alone:
                handler._dataset = Batches(sharded, handler._dataset)
            return handler

        data_adapter.get_data_handler = first
        try:
            yield
        finally:
            data_adapter.get_data_handler = original


def _refuse_followers(callbacks: Any) -> None:
    given = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    if any(isinstance(callback, FitFollower) for callback in given):
        raise UsageError(
            "`autodist.BackupAndRestore` was given to the `fit` of Keras 2, it follows that of Keras 3",
            hint="take `tf_keras.callbacks.BackupAndRestore`, or a loop with `ad.checkpoint`",
        )


class _Train2Function(TrainFunction):
    """Counts the model's steps, as Keras 2 does within them."""

    def __call__(self, iterator: Any) -> Any:
        logs = super().__call__(iterator)
        self._model._train_counter.assign_add(self._batches_per_call())
        return logs

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        model = self._model

        def train_step(data: Any) -> Any:  # which Keras 2 leaves to AutoGraph
            return model.train_step(data)

        return train_step

    def _batches_per_call(self) -> int:
        steps = self._model.steps_per_execution
        return 1 if steps is None else int(steps.numpy())
