"""Keras callbacks for training inside a scope; importing this imports Keras."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import keras

from autodist.errors import UsageError
from autodist.runtime import Engine, ReferenceEngine
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
from autodist.runtime.keras import FitFollower, FitPosition, best_weights, callback_states, restore_callbacks

__all__ = ["BackupAndRestore"]


class BackupAndRestore(keras.callbacks.Callback, FitFollower):
    """Backs up the state of ``fit``, and goes on from there when the script is started again.

    Like ``keras.callbacks.BackupAndRestore``, but exact: training that was interrupted anywhere ends with the weights
    of training that was not. It saves weights, optimizer, metrics, the state of random generators, epoch, batch and
    what Keras' own callbacks have counted; batches that were seen are skipped. With several workers the chief writes
    and reads the files. ``tf.train.Checkpoint(model=model)`` reads them as well.

    The model must have its variables before ``fit``, and the data must come in the same order in every attempt:
    shuffles have a seed, and so has every other generator of the input.

    Args:
        directory: Where checkpoints are, on the chief's machine; for one ``fit`` only.
        save_freq: ``"epoch"``, or the number of batches from one checkpoint to the next.
        keep: How many checkpoints to keep; older ones are taken when the newest can't be read.
        delete_checkpoint: Whether to remove the checkpoints when ``fit`` has ended. If they are kept, the same ``fit``
            trains nothing the next time.
        fresh: Begin from the start, whatever is in the directory: nothing of it is restored, and what AutoDist has not
            written stays. A restart of the same run goes on from what the run has written.

    Raises:
        UsageError: An argument is not allowed.

    Example:
        >>> backup = autodist.BackupAndRestore("backup", save_freq=500)                          # doctest: +SKIP
        >>> with autodist.scope():                                                               # doctest: +SKIP
        ...     model.fit(dataset, epochs=10, callbacks=[backup])
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        save_freq: int | Literal["epoch"] = "epoch",
        *,
        keep: int = 2,
        delete_checkpoint: bool = True,
        fresh: bool = False,
    ) -> None:
        super().__init__()
        if save_freq != "epoch" and (not isinstance(save_freq, int) or save_freq < 1):
            raise UsageError(f"`save_freq` is {save_freq!r}, allowed: 'epoch', or a number of batches, at least 1")
        self.directory = directory
        self.save_freq = save_freq
        self.keep = keep
        self.delete_checkpoint = delete_checkpoint
        self.fresh = fresh
        self._engine: Engine | ReferenceEngine | None = None

    def follow(self, engine: Engine | ReferenceEngine, position: FitPosition, others: Sequence[Any]) -> None:
        """See the base class."""
        self._engine = engine
        self._position = position
        self._others = others
        worker, kind = engine.worker, CheckpointKind.FIT
        self._checkpoints = Checkpoints(worker, self.directory, self.keep, kind, fresh=self.fresh)
        self._steps = self._saved_steps = self._epoch = self._batch = 0
        self._found: dict[str, Any] | None = None
        worker.interruption.will_save()

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the newest checkpoint; the state within an epoch is restored once the epoch has begun."""
        if self._engine is None:
            raise UsageError(
                "`autodist.BackupAndRestore` is used outside of a scope",
                hint="call `fit` inside `with autodist.scope():`, or take `keras.callbacks.BackupAndRestore`",
            )
        if not self.model.built:
            raise UsageError(
                f"the model `{self.model.name}` has no variables so far, and a checkpoint can't be restored without",
                hint="give it an input: `keras.Input` as the first layer, or `model.build(shape)`",
            )
        checkpoint = self._checkpoints.find()
        if checkpoint is None:
            return
        found = checkpoint.position
        if found is None:  # a checkpoint of another program holds values only
            self._restore_values(0)
            return
        self._steps = self._saved_steps = found["steps"]
        self._position.go_to(found["data"], found["batch"])
        self._engine.gather()
        self.model._initial_epoch = self.params["epochs"] if found["is_stopped"] else found["epoch"]
        restore_callbacks(self._others, found["callbacks"])
        if found["batch"]:
            self._found = found
        else:
            self._restore(found)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Count; in an epoch that had begun before, restore everything that callbacks have just changed."""
        self.model._initial_epoch = None  # it would be that of the next `fit` too
        self._epoch, self._batch = epoch, 0
        if self._found is not None:
            self._batch = self._found["batch"]
            self._restore(self._found)
            self._position.prepare(self.model)
            self._found = None
            self._report_metrics()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save when it is time."""
        self._steps += batch + 1 - self._batch
        self._batch = batch + 1
        if self.save_freq != "epoch" and self._steps - self._saved_steps >= self.save_freq:
            self._save()
        assert self._engine is not None
        self._engine.worker.interruption.may_save(self._save_once)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save when it is time."""
        self.model.__dict__.pop("_get_metrics_result_or_logs", None)
        self._epoch, self._batch = epoch + 1, 0
        if self.save_freq == "epoch":
            self._save()

    def on_train_end(self, logs: Any = None) -> None:
        """Remove the checkpoints, or keep what is needed to find that training is complete."""
        self.model._initial_epoch = None
        if self.delete_checkpoint:
            self._checkpoints.remove()
        elif self._steps != self._saved_steps:
            self._save()

    def _report_metrics(self) -> None:
        """Have Keras report the metrics of this epoch even if no step of it is left."""
        original = self.model._get_metrics_result_or_logs
        self.model._get_metrics_result_or_logs = lambda logs: original(logs or self.model.get_metrics_result())

    def _save_once(self) -> None:
        if self._steps != self._saved_steps:
            self._save()

    def _save(self) -> None:
        assert self._engine is not None
        self._saved_steps = self._steps
        position = {
            "steps": self._steps,
            "epoch": self._epoch,
            "batch": self._batch,
            "data": self._position.to_json(),
            "is_stopped": bool(self.model.stop_training),
            "callbacks": callback_states(self._others),
            "best_weights": [callback.best_weights is not None for callback in best_weights(self._others)],
        }
        with self._engine.standstill():
            if self._engine.worker.is_chief:
                kept = [callback.best_weights for callback in best_weights(self._others)]
                trackables = self._trackables([weights for weights in kept if weights is not None])
                self._checkpoints.save(trackables, self._variables(), position)

    def _restore(self, found: dict[str, Any]) -> None:
        if found["batch"]:
            self._position.build(self.model)  # metrics too: they are those of the middle of an epoch
        callbacks = best_weights(self._others)
        kept = [c for c, has_weights in zip(callbacks, found["best_weights"], strict=True) if has_weights]
        for callback, weights in zip(kept, self._restore_values(len(kept)), strict=True):
            callback.best_weights = [variable.numpy() for variable in weights]

    def _restore_values(self, num_kept: int) -> Sequence[Sequence[Any]]:
        """Restore the model; return the weights that this many callbacks have kept."""
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        trackables = self._trackables([self.model.get_weights() for _ in range(num_kept)])
        self._checkpoints.restore(trackables, self._variables())
        kept: Sequence[Sequence[Any]] = trackables.get("best_weights", ())
        return kept

    def _trackables(self, kept: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Contents of checkpoints by name; weights that callbacks keep need variables for that."""
        import tensorflow as tf

        kept_variables = [[tf.Variable(value) for value in weights] for weights in kept]
        return {"model": self.model, **({"best_weights": kept_variables} if kept else {})}

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.model.optimizer.variables, *self.model.metrics_variables]
