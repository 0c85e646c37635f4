"""Keras' ``fit`` inside a scope."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from autodist.errors import CaptureError
from autodist.runtime._engine import Engine
from autodist.runtime._patches import Patches
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime._shard import ShardedDataset

__all__ = ["hook_fit"]


def hook_fit(patches: Patches, engine: Engine | ReferenceEngine, shard: Callable[[Any], ShardedDataset]) -> None:
    """Have ``fit`` and ``train_on_batch`` train through the engine; everything else of Keras stays as it is.

    Args:
        patches: Where to register.
        engine: Runs the training steps.
        shard: Makes a dataset deliver this worker's part of each batch.
    """
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    hooks = _FitHooks(engine, shard)
    patches.callback(hooks.forget)
    patches.replace(TensorFlowTrainer, "make_train_function", hooks.make_train_function)
    patches.replace(TensorFlowTrainer, "fit", hooks.fit)


class _FitHooks:
    """What replaces methods of Keras' trainer, and what they share."""

    def __init__(self, engine: Engine | ReferenceEngine, shard: Callable[[Any], ShardedDataset]) -> None:
        self._engine = engine
        self._shard = shard
        self._trained: list[Any] = []
        self._sharded: list[Any] = []
        """The models whose running ``fit`` gets this worker's parts of batches."""

    def forget(self) -> None:
        """Let models make functions of Keras' own the next time."""
        for model in self._trained:
            model.train_function = None

    def make_train_function(self, original: Any) -> Any:
        """What makes the function that ``fit`` calls with an iterator."""

        @functools.wraps(original)
        def make_train_function(model: Any, force: bool = False) -> Any:
            local = any(sharded is model for sharded in self._sharded)
            if model.run_eagerly and self._engine.num_replicas == 1:
                return original(model, force)
            if model.run_eagerly:
                raise CaptureError(
                    f"the model `{model.name}` was compiled with run_eagerly=True, its steps can't be captured",
                    hint="compile it with run_eagerly=False",
                )
            if force or not isinstance(model.train_function, _TrainFunction):
                self._trained.append(model)
                model.train_function = _TrainFunction(model, self._engine)
            model.train_function.local = local
            return model.train_function

        return make_train_function

    def fit(self, original: Any) -> Any:
        """``fit`` that shards its dataset; only the chief shows progress."""

        @functools.wraps(original)
        def fit(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if not self._engine.worker.is_chief and kwargs.get("verbose", "auto") == "auto":
                kwargs["verbose"] = 0
            if not isinstance(x, tf.data.Dataset | ShardedDataset):
                history = original(model, x, *args, **kwargs)
            else:
                self._sharded.append(model)
                try:
                    history = original(model, self._shard(x).dataset, *args, **kwargs)
                finally:
                    self._sharded.remove(model)
            self._engine.settle()
            return history

        return fit


class _TrainFunction:
    """What ``fit`` calls once per ``steps_per_execution`` batches, with an iterator of batches."""

    def __init__(self, model: Any, engine: Engine | ReferenceEngine) -> None:
        self._model = model
        self._engine = engine
        self.local = False

    def __call__(self, iterator: Any) -> Any:
        logs: Any = None
        for k in range(self._model.steps_per_execution):
            try:
                batch = next(iterator)
            except StopIteration:
                if k == 0:
                    raise
                break
            logs = self._engine.run_batch(self._step, _without_optionals(batch), local=self.local)
        return logs

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        model = self._model

        def train_step(data: Any) -> Any:
            return model.train_step(data)

        return train_step


def _without_optionals(batch: Any) -> Any:
    """Keras marks absent parts of a batch (no sample weights, say) by empty optionals."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)
