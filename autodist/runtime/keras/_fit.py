"""Keras' ``fit`` inside a scope."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

from autodist.errors import CaptureError, UsageError
from autodist.graph import Patches
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime.data import Declared, ShardedDataset, without_note
from autodist.runtime.keras._files_aside import FilesAside
from autodist.runtime.keras._fit_position import FitFollower, FitPosition, without_optionals
from autodist.runtime.keras._keras_steps import last_of_call, step_of

_LOG = logging.getLogger(__name__)


def hook_fit(
    patches: Patches, engine: Engine | ReferenceEngine, shard: Callable[[Any], ShardedDataset], files: FilesAside
) -> None:
    """Have ``fit`` and ``train_on_batch`` train through the engine; everything else of Keras stays as it is.

    Args:
        patches: Where to register.
        engine: Runs the training steps.
        shard: Makes a dataset deliver this worker's part of each batch.
        files: Where callbacks of other workers than the chief write.
    """
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    hooks = FitHooks(engine, shard, files)
    patches.callback(hooks.forget)
    patches.replace(TensorFlowTrainer, "make_train_function", hooks.make_train_function)
    patches.replace(TensorFlowTrainer, "fit", hooks.fit)


class FitHooks:
    """Replacements of methods of Keras' trainer, and their common state."""

    def __init__(
        self, engine: Engine | ReferenceEngine, shard: Callable[[Any], ShardedDataset], files: FilesAside
    ) -> None:
        self._engine = engine
        self._shard = shard
        self._trained: list[Any] = []
        self._sharded: list[tuple[Any, ShardedDataset]] = []
        """The models whose running ``fit`` gets this worker's parts of batches, and from where."""
        self._files = files

    def forget(self) -> None:
        """Let models make functions of Keras' own the next time."""
        for model in self._trained:
            model.train_function = None

    def train_function(self, model: Any) -> TrainFunction:
        """The function that ``fit`` calls with an iterator."""
        return TrainFunction(model, self._engine)

    def make_train_function(self, original: Any) -> Any:
        """The replacement of the method that makes the function that ``fit`` calls."""

        @functools.wraps(original)
        def make_train_function(model: Any, force: bool = False) -> Any:
            sharded = next((dataset for other, dataset in reversed(self._sharded) if other is model), None)
            if model.run_eagerly and self._engine.num_replicas == 1:
                return original(model, force)
            if model.run_eagerly:
                raise CaptureError(
                    f"the model `{model.name}` was compiled with run_eagerly=True, its steps can't be captured",
                    hint="compile it with run_eagerly=False",
                )
            if force or not isinstance(model.train_function, TrainFunction):
                self._trained.append(model)
                model.train_function = self.train_function(model)
            model.train_function.sharded = sharded
            return model.train_function

        return make_train_function

    def fit(self, original: Any) -> Any:
        """``fit`` that shards its dataset; only the chief shows progress."""

        @functools.wraps(original)
        def fit(model: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
            import tensorflow as tf

            if not self._engine.worker.is_chief and kwargs.get("verbose", "auto") == "auto":
                kwargs["verbose"] = 0
            bound = inspect.signature(original).bind(model, x, *args, **kwargs)
            _check_no_other_distribution(model)
            _check_validation_data(bound.arguments.get("validation_data"))
            with contextlib.ExitStack() as stack:
                if isinstance(x, tf.data.Dataset | ShardedDataset):
                    sharded = self._shard(x)
                    bound.arguments["x"] = sharded.dataset
                    stack.enter_context(self._given(model, sharded))
                stack.enter_context(self._together(bound.arguments))
                self._save_at_end(bound.arguments)
                stack.enter_context(_followed(bound.arguments, self._engine))
                history = original(*bound.args, **bound.kwargs)
            self._engine.settle()
            self._note_nothing_left(history, bound)
            return history

        return fit

    def _note_nothing_left(self, history: Any, bound: inspect.BoundArguments) -> None:
        """Note that a ``fit`` had no epochs left, as after a checkpoint of the last one: the run is no failure then."""
        if history.epoch:
            return
        self._engine.worker.nothing_left = True
        bound.apply_defaults()
        if self._engine.worker.is_chief:
            _LOG.info("`fit` has no epochs left: it was to end with epoch %d", bound.arguments["epochs"])

    def _save_at_end(self, arguments: dict[str, Any]) -> None:
        from autodist.runtime.keras._fit_callbacks import saving_at_end

        callbacks = _callbacks(arguments)
        if behind := saving_at_end(self._engine.worker, callbacks):
            arguments["callbacks"] = [*callbacks, *behind]

    @contextlib.contextmanager
    def _together(self, arguments: dict[str, Any]) -> Iterator[None]:
        """Have the callbacks of the ``fit`` inside decide as one with those of the other workers."""
        if self._engine.worker.world_size == 1 or isinstance(self._engine, ReferenceEngine):
            yield
            return
        from autodist.runtime.keras._fit_callbacks import deciding_together, writing_aside

        callbacks = _callbacks(arguments)
        arguments["callbacks"] = deciding_together(self._engine, callbacks)
        with writing_aside(callbacks, self._files):
            yield

    @contextlib.contextmanager
    def _given(self, model: Any, sharded: ShardedDataset) -> Iterator[None]:
        """Have the model's ``fit`` inside know that its batches are parts, and end when all workers' parts have."""
        self._sharded.append((model, sharded))
        try:
            with self._batches_of(sharded):
                yield
        finally:
            self._sharded.pop()

    def _batches_of(self, sharded: ShardedDataset) -> contextlib.AbstractContextManager[None]:
        return _first_epochs(lambda epochs: _take_batches(epochs, sharded))


def _check_no_other_distribution(model: Any) -> None:
    import tensorflow as tf

    other = model._distribute_strategy or (tf.distribute.get_strategy() if tf.distribute.has_strategy() else None)
    if other is not None:
        raise UsageError(
            f"the model `{model.name}` belongs to a `tf.distribute.{type(other).__name__}` already",
            hint="leave `tf.distribute` out: make and fit the model inside `with autodist.scope():` only",
        )


def _check_validation_data(data: Any) -> None:
    if isinstance(data, ShardedDataset):
        raise UsageError(
            "`validation_data` is `ad.shard(dataset)`, it takes the dataset itself",
            hint="leave `ad.shard` out: the workers share each batch of the validation data anyway",
        )


def _take_batches(epochs: Any, sharded: ShardedDataset) -> None:
    """Have Keras' iterator of epochs take its batches from where the workers go on together."""
    if sharded.may_end_alone:
        epochs._distributed_dataset = Batches(sharded, epochs._distributed_dataset)


class Batches:
    """A sharded dataset as Keras' iterator of epochs takes it: tensors, from the start for each epoch.

    Args:
        sharded: The dataset.
        dataset: The dataset that Keras has made from it, with class weights for example.
    """

    def __init__(self, sharded: ShardedDataset, dataset: Any) -> None:
        self._sharded = sharded
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return self._sharded.batches(self._dataset)


@contextlib.contextmanager
def _followed(arguments: dict[str, Any], engine: Engine | ReferenceEngine) -> Iterator[None]:
    """Let the callback that wants it follow the ``fit`` inside, whose arguments these are; it becomes the last one."""
    callbacks = _callbacks(arguments)
    followers = [callback for callback in callbacks if isinstance(callback, FitFollower)]
    if not followers:
        yield
        return
    if len(followers) > 1:
        raise UsageError("`fit` was given two of `autodist.BackupAndRestore`, it takes one")
    others = [callback for callback in callbacks if callback is not followers[0]]
    arguments["callbacks"] = [*others, *followers]
    with _first_epochs(lambda epochs: followers[0].follow(engine, FitPosition(epochs), others)):
        yield


@contextlib.contextmanager
def _first_epochs(prepare: Callable[[Any], None]) -> Iterator[None]:
    """Prepare the first iterator of epochs that Keras makes inside, that of the training data."""
    from keras.src.backend.tensorflow import trainer

    original = trainer.TFEpochIterator

    def first(*args: Any, **kwargs: Any) -> Any:
        trainer.TFEpochIterator = original  # the next one is that of the validation data
        epochs = original(*args, **kwargs)
        prepare(epochs)
        return epochs

    trainer.TFEpochIterator = first
    try:
        yield
    finally:
        trainer.TFEpochIterator = original


def _callbacks(arguments: dict[str, Any]) -> list[Any]:
    """The callbacks of a ``fit``, followed by the history that Keras would append."""
    import keras

    given = arguments.get("callbacks")
    if given is None or isinstance(given, keras.callbacks.CallbackList):
        return [] if given is None else list(given.callbacks)
    callbacks: list[Any] = keras.tree.flatten(given)
    if not any(isinstance(callback, keras.callbacks.History) for callback in callbacks):
        callbacks.append(keras.callbacks.History())
    return callbacks


class TrainFunction:
    """The function that ``fit`` calls once per ``steps_per_execution`` batches, with an iterator of batches."""

    def __init__(self, model: Any, engine: Engine | ReferenceEngine) -> None:
        self._model = model
        self._engine = engine
        self._has_noted_end = False
        self.sharded: ShardedDataset | None = None
        """Where the batches come from, if they are this worker's parts."""

    def __call__(self, iterator: Any) -> Any:
        declared = self._declared(iterator)

        def train(given: Any) -> Any:
            batch = without_optionals(given)
            plain = functools.partial(self._plain_step, without_note(batch)[0])
            return self._engine.run_batch(self._step, self._arrays(batch), plain, declared=declared)

        try:
            return last_of_call(iterator, self._batches_per_call(), train)
        except StopIteration:
            self._note_end()
            raise

    def _note_end(self) -> None:
        """Say where Keras alone differs: on data of unknown length, it begins one step more, which finds no batch.

        What such a step does without the batch is done: the optimizer counts it, generators advance, weights decay.
        Several steps per execution ask first.
        """
        is_first = self._engine.worker.is_chief and not self._has_noted_end
        if is_first and self._batches_per_call() == 1:
            self._has_noted_end = True
            _LOG.warning(
                "the length of the training data is not known before their end, where Keras on one device begins a "
                "step without a batch, by which the optimizer's step count and the seeds of layers advance in each "
                "epoch; AutoDist does not. For equal weights, say the length, by "
                "`dataset.apply(tf.data.experimental.assert_cardinality(number of batches))` or `steps_per_epoch`"
            )

    def prepare(self, batch: Any) -> None:
        """Compile the step for batches like one from Keras' iterator without running it, for evaluations to share."""
        if isinstance(self._engine, Engine) and self._engine.num_replicas > 1:
            declared = self._declared(None)
            self._engine.prepare(self._step, self._arrays(without_optionals(batch)), declared=declared)

    def _declared(self, source: Any) -> Declared:
        if self.sharded is not None:
            return self.sharded.declared
        return Declared.of(getattr(source, "element_spec", ()))

    def _arrays(self, batch: Any) -> Any:
        return batch if self.sharded is None else self.sharded.arrays(batch)

    def _batches_per_call(self) -> int:
        return int(self._model.steps_per_execution)

    @functools.cached_property
    def _step(self) -> Callable[..., Any]:
        return step_of(self._model, "train_step")

    @functools.cached_property
    def _plain_step(self) -> Callable[..., Any]:
        """Keras' own training function, for one device."""
        import tensorflow as tf

        made: Callable[..., Any] = tf.function(self._step, reduce_retracing=True)
        return made
