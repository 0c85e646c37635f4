"""Checkpoints of a training loop: variables, and the place in the data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from autodist.errors import UsageError
from autodist.registry import suggestion
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime.checkpoints._checkpoints import CheckpointKind, Checkpoints
from autodist.runtime.data import ShardedDataset


class LoopCheckpoint:
    """Saves a training loop, and goes on from the newest checkpoint; made by ``ad.checkpoint``.

    Args:
        engine: That of the scope.
        directory: Where checkpoints are, on the chief's machine.
        every_steps: Steps from one checkpoint to the next.
        every_s: Seconds from one checkpoint to the next.
        keep: How many checkpoints to keep.
        fresh: Whether training begins from the start, whatever is there.
        trackables: What is saved, by name: models, optimizers, modules, variables.

    Raises:
        UsageError: An argument is not allowed, a model is not built, or the checkpoint is of something else.

    Example:
        >>> checkpoint = ad.checkpoint("checkpoints", every_steps=100, model=model)         # doctest: +SKIP
        >>> for epoch in range(3):                                                           # doctest: +SKIP
        ...     for step, (x, y) in checkpoint.steps(ad.shard(dataset)):
        ...         loss = train_step(x, y)
    """

    def __init__(
        self,
        engine: Engine | ReferenceEngine,
        directory: str | os.PathLike[str],
        every_steps: int | None,
        every_s: float | None,
        keep: int,
        fresh: bool,
        trackables: dict[str, Any],
    ) -> None:
        _check_intervals(every_steps, every_s)
        _build(trackables)
        self._engine = engine
        self._every_steps = every_steps
        self._every_s = every_s
        self._trackables = trackables
        self._checkpoints = Checkpoints(engine.worker, directory, keep, CheckpointKind.LOOP, fresh=fresh)
        self._step = self._pass = self._batch = self._calls = 0
        self._saved_s = time.monotonic()
        found = self._checkpoints.find()
        if found is not None:
            position = found.position or {}  # a checkpoint of another program holds values only
            self._step, self._pass, self._batch = (position.get(name, 0) for name in ("steps", "passes", "batches"))
            self._checkpoints.restore(trackables, _variables_of(trackables))
        self._saved_step = self._step if found is not None else None
        engine.worker.interruption.will_save()

    @property
    def step(self) -> int:
        """Training steps done since the very beginning."""
        return self._step

    def steps(self, dataset: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Pass over the data once, and save when it is time.

        After a restart, a pass that was complete has no steps, and one that was not begins after the batches that it
        has had. So the calls must be the same in all attempts.

        Args:
            dataset: What ``ad.shard`` returns, or anything else that can be iterated over: from the beginning each
                time, and, for a shuffle that differs from pass to pass, with a seed.

        Yields:
            The number of training steps done before, and a batch. The step has been taken when the next is asked for.
        """
        number = self._calls
        self._calls += 1
        if number < self._pass:
            _begin(dataset)  # a shuffle has another order in each pass
            return
        batches = iter(dataset)
        for _ in range(self._batch):
            next(batches, None)
            self._engine.local_batches.is_pending = False  # it is not needed any more
        if self._batch:
            self._engine.gather()
        for batch in batches:
            yield self._step, batch
            self._step += 1
            self._batch += 1
            if self._is_due():
                self.save()
            self._engine.worker.interruption.may_save(self.save)
        self._pass, self._batch = number + 1, 0
        if self._every_steps is None and self._every_s is None:
            self.save()

    def save(self) -> None:
        """Save now, unless this step has been saved; all workers must call it at the same step."""
        if self._saved_step == self._step:
            return
        with self._engine.standstill():
            self._write()

    def _is_due(self) -> bool:
        if self._every_steps is not None and self._step % self._every_steps == 0:
            return True
        if self._every_s is not None and time.monotonic() - self._saved_s >= self._every_s:
            # Each worker has its own clock; the chief writes alone, as it can read all variables.
            self._write()
        return False

    def _write(self) -> None:
        position = {"steps": self._step, "passes": self._pass, "batches": self._batch}
        self._checkpoints.save(self._trackables, _variables_of(self._trackables), position)
        self._saved_step, self._saved_s = self._step, time.monotonic()


def _begin(dataset: Any) -> None:
    """Start to iterate, and leave it at that."""
    iter(dataset.dataset if isinstance(dataset, ShardedDataset) else dataset)


def _check_intervals(every_steps: Any, every_s: Any) -> None:
    if every_steps is not None and (not isinstance(every_steps, int) or every_steps < 1):
        raise UsageError(f"`every_steps` is {every_steps!r}, it must be a number of steps, at least 1")
    if every_s is not None and (not isinstance(every_s, int | float) or not every_s > 0):
        raise UsageError(f"`every_s` is {every_s!r}, it must be a number of seconds above 0")


_SETTINGS = ("directory", "every_steps", "every_s", "keep", "fresh")


def _build(trackables: dict[str, Any]) -> None:
    """See that all variables exist: a checkpoint has values for them, and can't wait for the first step."""
    import keras
    import tensorflow as tf

    if not trackables:
        raise UsageError("nothing is to be saved", hint="name it: `ad.checkpoint(directory, model=model)`")
    for name, value in trackables.items():
        if name in ("save_counter", "position", "others"):
            raise UsageError(f"`{name}` is a name of AutoDist's own in checkpoints", hint="choose another name")
        if not isinstance(value, tf.__internal__.tracking.Trackable):
            raise UsageError(
                f"`{name}` is a {type(value).__name__}, allowed: models, optimizers, tf.Modules and variables"
                f"{suggestion(name, _SETTINGS)}"
            )
        if isinstance(value, keras.Model) and not value.built:
            raise UsageError(
                f"the model `{name}` has no variables so far",
                hint="give it an input: `keras.Input` as the first layer, or `model.build(shape)`",
            )
    _build_optimizer(trackables)


def _build_optimizer(trackables: dict[str, Any]) -> None:
    """Make the slots of an optimizer that has none so far, for all variables of the other trackables."""
    import keras

    unbuilt = {n: o for n, o in trackables.items() if isinstance(o, keras.optimizers.Optimizer) and not o.built}
    if len(unbuilt) > 1:
        raise UsageError(
            f"the optimizers {', '.join(f'`{name}`' for name in unbuilt)} have no variables so far",
            hint="say which variables each trains: `optimizer.build(model.trainable_variables)`",
        )
    for name, optimizer in unbuilt.items():
        trained = [v for other in trackables.values() if other is not optimizer for v in _trainable(other)]
        if not trained:
            raise UsageError(
                f"the optimizer `{name}` has no variables so far, and nothing that it trains is saved",
                hint="call `optimizer.build(variables)` before, and save the variables too",
            )
        optimizer.build(trained)


def _trainable(trackable: Any) -> list[Any]:
    import tensorflow as tf

    if isinstance(trackable, tf.Variable):
        return [trackable] if trackable.trainable else []
    return list(getattr(trackable, "trainable_variables", ()))


def _variables_of(trackables: dict[str, Any]) -> list[Any]:
    """All variables that Keras' objects and modules say are theirs."""
    return [v for value in trackables.values() for v in getattr(value, "variables", ())]
