"""The callbacks of a ``fit`` on several workers: they decide as one, and the files they write are the chief's.

Importing this imports Keras.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras.src.utils.python_utils import is_default

from autodist.coordination import Worker
from autodist.runtime._engine import Engine
from autodist.runtime.keras._files_aside import FilesAside

_HOOKS = tuple(name for name in dir(keras.callbacks.Callback) if name.startswith("on_"))
_MOMENTS = (("on_epoch_begin",), ("on_batch_begin", "on_train_batch_begin"), ("on_batch_end", "on_train_batch_end"))
"""Where workers have to agree only if a callback of any of them may decide something there."""


def deciding_together(engine: Engine, callbacks: Sequence[Any]) -> list[Any]:
    """The callbacks, between one that gives all workers the chief's logs and one that makes them agree.

    Args:
        engine: Engine of the scope, with several workers.
        callbacks: Those of a ``fit``. Workers may have different ones.
    """
    wanted = [any(_is_own(callback, hook) for callback in callbacks for hook in hooks) for hooks in _MOMENTS]
    has_schedule = any(isinstance(callback, keras.callbacks.LearningRateScheduler) for callback in callbacks)
    epochs, begins, ends = engine.decisions.anyone([wanted[0] or has_schedule, *wanted[1:]])
    if begins or ends:
        agreeing: _Agree = _AgreeAlsoOnBatches(engine, epochs=epochs, begins=begins, ends=ends)
    else:
        agreeing = _Agree(engine, epochs=epochs)
    return [_AppliesKept(engine), _ChiefLogs(engine), *callbacks, agreeing]


def saving_at_end(worker: Worker, callbacks: Sequence[Any]) -> list[Any]:
    """The callback to come after others so that Keras' own backups among them save when TERM ends the run."""
    backups = [callback for callback in callbacks if isinstance(callback, keras.callbacks.BackupAndRestore)]
    if not backups:
        return []
    worker.interruption.will_save()
    return [_SaveAtEnd(worker, backups)]


class _AppliesKept(keras.callbacks.Callback):
    """Has all gradients of an epoch applied before anything else comes after it: validation, files, other callbacks."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def on_test_begin(self, logs: Any = None) -> None:
        """Before validation, which comes before the end of the epoch."""
        self._engine.apply_kept()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Before the other callbacks, as the first one."""
        self._engine.apply_kept()


class _SaveAtEnd(keras.callbacks.Callback):
    """Has other callbacks save what they do; after a restart the epoch begins again, as Keras has it."""

    def __init__(self, worker: Worker, backups: Sequence[Any]) -> None:
        super().__init__()
        self._worker = worker
        self._backups = backups

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Come to a place where they may save."""
        self._worker.interruption.may_save(self._save)

    def _save(self) -> None:
        for backup in self._backups:
            backup._save_model()


def _is_own(callback: Any, hook: str) -> bool:
    """Whether a callback's hook is neither Keras' nor our own code, so that it may differ by worker."""
    method = getattr(callback, hook, None)
    if method is None or is_default(method):
        return False
    module = str(getattr(method, "__module__", ""))
    return not module.startswith(("keras.", "autodist."))


class _ChiefLogs(keras.callbacks.Callback):
    """Gives later callbacks the chief's logs of each epoch, so that they decide alike."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Overwrite the logs, which all callbacks are given."""
        if logs:
            logs.update(self._engine.decisions.of_chief(logs))


class _Agree(keras.callbacks.Callback):
    """Has the workers agree on what the callbacks before it have decided."""

    def __init__(self, engine: Engine, *, epochs: bool) -> None:
        super().__init__()
        self._engine = engine
        self._epochs = epochs

    def on_train_begin(self, logs: Any = None) -> None:
        """Agree."""
        self._agree()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Agree."""
        if self._epochs:
            self._agree()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Agree."""
        self._agree()

    def on_train_end(self, logs: Any = None) -> None:
        """Agree."""
        self._agree()

    def _agree(self) -> None:
        self.model.stop_training = self._engine.decisions.agree(bool(self.model.stop_training))


class _AgreeAlsoOnBatches(_Agree):
    """Makes them agree around each batch as well."""

    def __init__(self, engine: Engine, *, epochs: bool, begins: bool, ends: bool) -> None:
        super().__init__(engine, epochs=epochs)
        self._begins = begins
        self._ends = ends

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Agree."""
        if self._begins:
            self._agree_if_needed()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Agree."""
        if self._ends:
            self._agree_if_needed()

    def _agree_if_needed(self) -> None:
        if self._engine.any_worker(bool(self.model.stop_training) or not self._engine.state.has_taken_all):
            self._agree()


@contextlib.contextmanager
def writing_aside(callbacks: Sequence[Any], files: FilesAside) -> Iterator[None]:
    """Have files that callbacks of others than Keras open to write in Python go somewhere else, but on the chief."""
    changed: list[tuple[Any, str, Any]] = []
    try:
        for callback in () if files.is_chief else callbacks:
            for hook in _HOOKS:
                if _is_own(callback, hook):
                    changed.append((callback, hook, callback.__dict__.get(hook)))
                    setattr(callback, hook, _aside(getattr(callback, hook), files, type(callback).__name__))
        yield
    finally:
        for callback, hook, before in reversed(changed):
            if before is None:
                delattr(callback, hook)
            else:
                setattr(callback, hook, before)


def _aside(method: Callable[..., Any], files: FilesAside, label: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with files.instead(label):
            return method(*args, **kwargs)

    return call
