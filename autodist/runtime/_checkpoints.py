"""Checkpoints of a run: the chief writes and reads the files, all workers get the values."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autodist.errors import UsageError
from autodist.runtime._checkpoint_files import CheckpointFiles
from autodist.runtime._checkpoint_note import CheckpointNote
from autodist.runtime._recorder import Recorder
from autodist.runtime._transfer import adopt_chief_values
from autodist.runtime._worker import Worker

__all__ = ["Checkpoints"]

_LOG = logging.getLogger("autodist")
_exchanges = itertools.count()

_Found = tuple[str | None, dict[str, Any] | None]
"""The path of a checkpoint, and the position in it."""


class Checkpoints:
    """The checkpoints of one training in one directory.

    Each holds variables and a *position*, a few numbers as JSON that say where training stood. ``steps`` in it is the
    number of training steps since the very beginning.

    All workers must call the same methods in the same order. While ``autodist certify`` records the first steps, there
    are no checkpoints.

    Args:
        worker: Who this process is.
        directory: On the chief's machine; the others needn't have it.
        keep: How many checkpoints to keep.

    Raises:
        UsageError: An argument is not allowed.
    """

    def __init__(self, worker: Worker, directory: str | os.PathLike[str], keep: int) -> None:
        _check(directory, keep)
        self._worker = worker
        self._directory = Path(directory).absolute()
        self._files = CheckpointFiles(self._directory, keep)
        self._prefix: str | None = None
        self._restored = 0
        self._is_off = Recorder.from_environ() is not None

    def find(self) -> dict[str, Any] | None:
        """The position in the newest checkpoint, for all workers the chief's; None if there is none."""
        position: dict[str, Any] | None = None
        if self._worker.is_chief and not self._is_off:
            self._prefix, position = next(self._files.readable(), (None, None))
        self._prefix, position = self._from_chief((self._prefix, position))
        self._restored = position["steps"] if position is not None else 0
        self._worker.steps_restored += self._restored
        if self._worker.is_chief:
            self._tell(self._restored)
            if position is not None:
                _LOG.info("training goes on after step %d, from `%s`", self._restored, self._prefix)
        return position

    def restore(self, trackables: Mapping[str, Any], variables: Iterable[Any] = ()) -> None:
        """Give all workers the values of the checkpoint that :meth:`find` has found.

        Args:
            trackables: What was saved, by name.
            variables: Further variables that belong to them.

        Raises:
            UsageError: The checkpoint does not hold all of their variables in their shapes.
        """
        root = _root(trackables, variables)
        if self._worker.is_chief:
            self._read(root)
        else:
            self._read_if_here(root)
        if self._worker.world_size == 1:
            return
        found = {str(k): variable for k, variable in enumerate(_variables(root))}

        def assign(name: str, value: np.ndarray) -> None:
            found[name].assign(value)

        def read(name: str) -> np.ndarray:
            value: np.ndarray = found[name].numpy()
            return value

        changed = adopt_chief_values(self._worker, list(found), f"restored/{next(_exchanges)}", read, assign)
        if not self._worker.is_chief:
            for name in found.keys() - set(changed):  # on all workers the same variables are assigned
                assign(name, read(name))

    def save(self, trackables: Mapping[str, Any], variables: Iterable[Any], position: Mapping[str, Any]) -> None:
        """Write a checkpoint; does nothing on workers other than the chief.

        Raises:
            UsageError: The directory can't be written.
        """
        if not self._worker.is_chief or self._is_off:
            return
        import tensorflow as tf

        root = _root(trackables, variables, position=tf.Variable(json.dumps(position)))
        root.save_counter.assign(position["steps"])
        self._files.write(root, position["steps"])
        self._tell(position["steps"])

    def remove(self) -> None:
        """Remove all checkpoints: training is complete."""
        if self._worker.is_chief and not self._is_off:
            self._files.remove()
            self._tell(0)

    def _read(self, root: Any) -> None:
        assert self._prefix is not None, "`find` has found a checkpoint"
        try:
            status = root.read(self._prefix)
            status.expect_partial()  # of the files there may be more: the position, metrics
            status.assert_existing_objects_matched()
        except (AssertionError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"the checkpoint `{self._prefix}` is of another model or optimizer: {reason}",
                hint=f"train what it was made for, or give another directory, or remove `{self._directory}`",
            ) from error

    def _read_if_here(self, root: Any) -> None:
        """On a machine that sees the chief's files: then nothing must be sent. Whatever is wrong is put right later."""
        if Path(f"{self._prefix}.index").is_file():
            with contextlib.suppress(Exception):
                root.read(self._prefix).expect_partial()

    def _from_chief(self, value: _Found) -> _Found:
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1:
            return value
        key = f"checkpoint/{next(_exchanges)}"
        if self._worker.is_chief:
            coordinator.put(key, json.dumps(value).encode())
            return value
        prefix, position = json.loads(coordinator.get(key, self._worker.environment.start_timeout_s))
        return prefix, position

    def _tell(self, saved: int) -> None:
        if self._worker.coordinator is not None:
            CheckpointNote(self._restored, saved).tell(self._worker.coordinator)


def _check(directory: Any, keep: Any) -> None:
    if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
        raise UsageError(f"the directory of checkpoints is {directory!r}, it must be a path")
    if not isinstance(keep, int) or keep < 1:
        raise UsageError(f"`keep` is {keep!r}, it must be a number of checkpoints, at least 1")


def _root(trackables: Mapping[str, Any], variables: Iterable[Any], **own: Any) -> Any:
    """What is written or read; of the variables those that TensorFlow does not find in the trackables by itself.

    It does not find the state of Keras' random generators.
    """
    import tensorflow as tf

    root = tf.train.Checkpoint(**trackables)
    known = {id(variable) for variable in _variables(root)}
    others = [v for v in map(_resource, variables) if id(v) not in known]
    return tf.train.Checkpoint(**trackables, others=others, **own)


def _variables(root: Any) -> list[Any]:
    """The variables below a checkpoint, in an order that is the same for the same program."""
    import keras
    import tensorflow as tf
    from tensorflow.python.checkpoint.trackable_view import TrackableView

    own = [child for name, child in TrackableView.children(root).items() if name in ("save_counter", "position")]
    below = [v for v in TrackableView(root).descendants() if isinstance(v, tf.Variable | keras.Variable)]
    return list({id(r): r for v in below for r in (_resource(v),) if not any(r is o for o in own)}.values())


def _resource(variable: Any) -> Any:
    """The TensorFlow variable in a Keras variable."""
    import keras

    return variable.value if isinstance(variable, keras.Variable) else variable
