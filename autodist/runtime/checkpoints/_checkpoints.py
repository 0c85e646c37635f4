"""Checkpoints of a run: the chief writes and reads the files, all workers get the values."""

from __future__ import annotations

import contextlib
import enum
import itertools
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from autodist.coordination import CheckpointNote, Worker, adopt_chief_values
from autodist.error_text import said_by
from autodist.errors import CheckpointFailed, UsageError
from autodist.runtime._recorder import Recorder
from autodist.runtime.checkpoints._checkpoint_directory import CheckpointFiles, FoundCheckpoint

_LOG = logging.getLogger("autodist")
_exchanges = itertools.count()
_MOST_FAILURES = 3


class CheckpointKind(enum.Enum):
    """A writer of checkpoints; each needs other things in a position, whose ``kind`` says which."""

    LOOP = "loop"
    FIT = "fit"

    @property
    def writer(self) -> str:
        """Its name for users."""
        return "`ad.checkpoint`" if self is CheckpointKind.LOOP else "`autodist.BackupAndRestore`"

    @classmethod
    def of(cls, position: Mapping[str, Any]) -> CheckpointKind | None:
        """The writer of a position; None if unknown."""
        if "kind" in position:
            return next((kind for kind in cls if kind.value == position["kind"]), None)
        if "data" in position:  # older ones don't say so
            return cls.FIT
        return cls.LOOP if "passes" in position else None


class Checkpoints:
    """The checkpoints of one training in one directory.

    Each holds variables and a *position*, a few numbers as JSON that say where training was. ``steps`` in it is the
    number of training steps since the very beginning.

    All workers must call the same methods in the same order. While ``autodist certify`` records the first steps, there
    are no checkpoints.

    Args:
        worker: This process.
        directory: On the chief's machine; the others needn't have it.
        keep: How many checkpoints to keep.
        kind: What writes them; those of the other kind are refused.
        fresh: Whether training begins from the start, whatever is there.

    Raises:
        UsageError: An argument is not allowed.
    """

    def __init__(
        self,
        worker: Worker,
        directory: str | os.PathLike[str],
        keep: int,
        kind: CheckpointKind,
        *,
        fresh: bool = False,
    ) -> None:
        _check(directory, keep)
        self._worker = worker
        self._directory = Path(os.path.abspath(directory))
        self._kind = kind
        self._fresh = fresh
        self._failures = 0
        environment = worker.environment
        self._files = CheckpointFiles(self._directory, keep, environment.run_id, environment.attempt)
        self._found: FoundCheckpoint | None = None
        self._restored = 0
        self._is_off = Recorder.from_environ() is not None

    def find(self) -> FoundCheckpoint | None:
        """The newest checkpoint, for all workers the chief's; None if there is none.

        Raises:
            UsageError: Something is there, and nothing can be read, or it is of the other kind; or another run is
                there.
            CheckpointFailed: A checkpoint can't be read at the moment.
        """
        found: FoundCheckpoint | None = None
        if self._worker.is_chief and not self._is_off:
            found = self._of_this_kind(self._files.find(fresh=self._fresh))
        self._found = found = self._from_chief(found)
        self._restored = 0 if found is None or found.position is None else found.position["steps"]
        self._worker.steps_restored += self._restored
        if self._worker.is_chief:
            self._tell(self._restored)
            self._say(found)
        return found

    def _of_this_kind(self, found: FoundCheckpoint | None) -> FoundCheckpoint | None:
        if found is None or found.position is None:
            return found
        kind = CheckpointKind.of(found.position)
        if kind is None:  # the meaning of its position is unknown
            return FoundCheckpoint(found.path, None)
        if kind is not self._kind:
            raise UsageError(
                f"the checkpoint `{found.path}` was written by {kind.writer}, {self._kind.writer} can't go on from it",
                hint="name another directory; or start over, by `fresh=True`",
            )
        return found

    def _say(self, found: FoundCheckpoint | None) -> None:
        if found is None:
            return
        if found.position is None:
            _LOG.warning(
                "`%s` was not written by `ad.checkpoint` or `autodist.BackupAndRestore`: values are restored, but not "
                "the place in the data; steps count from 0, passes over the data from the first",
                found.path,
            )
        else:
            _LOG.info("training goes on after step %d, from `%s`", self._restored, found.path)

    def restore(self, trackables: Mapping[str, Any], variables: Iterable[Any] = ()) -> None:
        """Give all workers the values of the checkpoint that :meth:`find` has found.

        Args:
            trackables: What was saved, by name.
            variables: Further variables that belong to them.

        Raises:
            UsageError: The checkpoint does not hold all of their variables in their shapes.
        """
        assert self._found is not None, "`find` has found a checkpoint"
        root = _root(trackables, () if self._found.position is None else variables)
        if self._worker.is_chief:
            _read(self._found.path, root)
        else:
            _read_if_here(self._found.path, root)
        if self._worker.world_size == 1:
            return
        found = {str(k): variable for k, variable in enumerate(_variables(root))}

        def assign(name: str, value: np.ndarray) -> None:
            found[name].assign(value)

        def read(name: str) -> np.ndarray:
            value: np.ndarray = found[name].numpy()
            return value

        with self._worker.whereabouts.at("restores a checkpoint"):
            changed = adopt_chief_values(self._worker, list(found), f"restored/{next(_exchanges)}", read, assign)
        if not self._worker.is_chief:
            for name in found.keys() - set(changed):  # on all workers the same variables are assigned
                assign(name, read(name))

    def save(self, trackables: Mapping[str, Any], variables: Iterable[Any], position: Mapping[str, Any]) -> None:
        """Write a checkpoint; does nothing on workers other than the chief.

        If that fails, the older ones are kept and the next one is tried.

        Raises:
            UsageError: Another run is in the directory.
            CheckpointFailed: It has failed several times in a row.
        """
        if not self._worker.is_chief or self._is_off:
            return
        import tensorflow as tf

        root = _root(trackables, variables, position=tf.Variable(json.dumps({**position, "kind": self._kind.value})))
        root.save_counter.assign(position["steps"])
        try:
            self._files.write(root, position["steps"])
        except (OSError, tf.errors.OpError) as error:
            self._note_failure(position["steps"], error)
            return
        self._failures = 0
        self._tell(position["steps"])

    def remove(self) -> None:
        """Remove all checkpoints: training is complete."""
        if self._worker.is_chief and not self._is_off:
            try:
                self._files.remove()
            except OSError as error:
                _LOG.warning("the checkpoints in `%s` can't be removed: %s", self._directory, _reason(error))
            self._tell(0)

    def _note_failure(self, steps: int, error: Exception) -> None:
        self._failures += 1
        message = f"the checkpoint after step {steps} can't be written into `{self._directory}`: {_reason(error)}"
        if self._failures >= _MOST_FAILURES:
            raise CheckpointFailed(
                f"{message}; so it was {_MOST_FAILURES} times in a row",
                hint="make space on the disk, and start again: the older checkpoints are there",
            ) from error
        _LOG.warning("%s; the older ones are kept, and the next one is tried", message)

    def _from_chief(self, found: FoundCheckpoint | None) -> FoundCheckpoint | None:
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1:
            return found
        key = f"checkpoint/{next(_exchanges)}"
        if self._worker.is_chief:
            coordinator.put(key, json.dumps(found and asdict(found)).encode())
            return found
        with self._worker.whereabouts.at("looks for a checkpoint"):
            told = json.loads(coordinator.get(key, self._worker.environment.start_timeout_s))
        return told and FoundCheckpoint(**told)

    def _tell(self, saved: int) -> None:
        if self._worker.coordinator is not None:
            CheckpointNote(self._restored, saved).tell(self._worker.coordinator)


def _read(path: str, root: Any) -> None:
    try:
        status = root.read(path)
        status.expect_partial()  # the files may hold more: the position, metrics
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise UsageError(
            f"the checkpoint `{path}` is of another model or optimizer: {said_by(error)}",
            hint="train what it was made for, with its names (`model=`, `optimizer=`), or give another directory; "
            "or start over next to it, by `fresh=True`",
        ) from error


def _read_if_here(path: str, root: Any) -> None:
    """Read the chief's files if this machine sees them, so that nothing must be sent; errors are corrected later."""
    if Path(f"{path}.index").is_file():
        with contextlib.suppress(Exception):
            root.read(path).expect_partial()


def _check(directory: Any, keep: Any) -> None:
    if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
        raise UsageError(f"the directory of checkpoints is {directory!r}, it must be a path")
    if not isinstance(keep, int) or keep < 1:
        raise UsageError(f"`keep` is {keep!r}, it must be a number of checkpoints, at least 1")


def _reason(error: Exception) -> str:
    """The disk's message, without the file that TensorFlow names before it."""
    return said_by(error).rpartition("; ")[2]


def _root(trackables: Mapping[str, Any], variables: Iterable[Any], **own: Any) -> Any:
    """The object that is written or read, with those of the variables that TensorFlow does not find by itself.

    It does not find the state of Keras' random generators.
    """
    import tensorflow as tf

    root = tf.train.Checkpoint(**trackables)
    known = {id(variable) for variable in _variables(root)}
    others = [v for v in map(_resource, variables) if id(v) not in known]
    if others or own:
        own["others"] = others
    return tf.train.Checkpoint(**trackables, **own)


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
