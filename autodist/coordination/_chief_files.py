"""Files that the chief writes and the others wait for: after `model.save(path)` every worker finds the file."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from autodist.coordination._worker import Worker
from autodist.errors import AutoDistError, TimedOut, WorkerFailed

_LOOK_EVERY_S = 2.0
_LOOKS = 3  # a note may be a moment old, so one look proves nothing
_LONGEST_S = 24 * 3600.0  # while the chief writes; that it has died is noticed at once
_inside = threading.local()


@contextlib.contextmanager
def own_writing() -> Iterator[None]:
    """Files inside are AutoDist's own, or parts of others: no worker waits for them."""
    depth = getattr(_inside, "depth", 0)
    _inside.depth = depth + 1
    try:
        yield
    finally:
        _inside.depth = depth


class ChiefFiles:
    """The calls that write files, counted by function; the workers make the same ones in the same order.

    Where only the chief makes some of them, others may wait for an earlier one, and never in vain.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._made: Counter[str] = Counter()

    @contextlib.contextmanager
    def telling(self, label: str) -> Iterator[None]:
        """On the chief: tell the others when what is written inside is written, or why it could not be."""
        if getattr(_inside, "depth", 0):
            yield
            return
        key = self._next(label)
        self._put(f"{key}/begun", None)
        try:
            with own_writing():
                yield
        except BaseException as error:
            with contextlib.suppress(AutoDistError):
                self._put(f"{key}/ended", _described(error))
            raise
        self._put(f"{key}/ended", None)

    def wait(self, label: str) -> None:
        """On the others: wait until the chief has written.

        Raises:
            OSError: It could not write; TensorFlow's errors are raised likewise.
            WorkerFailed: It could not, for another reason.
            TimedOut: It does not come to this call.
        """
        coordinator = self._worker.coordinator
        assert coordinator is not None, "only workers of a run wait for the chief"
        key = self._next(label)
        if not self._has_begun(key):
            with self._worker.whereabouts.at(f"is at `{label}`"):  # a chief that is in a step is named
                self._await_beginning(key, label)
        reason = json.loads(coordinator.get(f"{key}/ended", _LONGEST_S))
        if reason is not None:
            raise _error(label, **reason)

    def _await_beginning(self, key: str, label: str) -> None:
        """Wait for the chief to come, but not while it waits for this worker somewhere else."""
        until_s = time.monotonic() + self._worker.environment.start_timeout_s
        seen, looks = None, 0
        while not self._has_begun(key):
            chief = self._worker.whereabouts.elsewhere().get(0)
            looks = looks + 1 if chief is not None and chief == seen else 0
            seen = chief
            if looks >= _LOOKS or time.monotonic() > until_s:
                where = "has not" if chief is None else chief.words
                raise TimedOut(
                    f"worker {self._worker.rank} has come to `{label}`, but the chief, which writes the file, {where}",
                    hint="save in the same way on all workers, or on the chief only: `if ad.rank == 0:`",
                )

    def _has_begun(self, key: str) -> bool:
        """Whether the chief writes, or has written; waits for a moment."""
        coordinator = self._worker.coordinator
        assert coordinator is not None
        with contextlib.suppress(TimedOut):
            coordinator.get(f"{key}/begun", _LOOK_EVERY_S)
            return True
        return False

    def _next(self, label: str) -> str:
        self._made[label] += 1
        return f"written/{label}/{self._made[label]}"

    def _put(self, key: str, value: Any) -> None:
        assert self._worker.coordinator is not None
        self._worker.coordinator.put(key, json.dumps(value).encode())


def _described(error: BaseException) -> dict[str, Any]:
    import tensorflow as tf

    return {
        "message": f"{type(error).__name__}: {error}",
        "errno": error.errno if isinstance(error, OSError) else None,
        "tensorflow": error.error_code if isinstance(error, tf.errors.OpError) else None,
        "is_os": isinstance(error, OSError),
    }


def _error(label: str, message: str, errno: int | None, tensorflow: int | None, is_os: bool) -> Exception:
    """The same kind of error as the chief's: if one worker goes on after it, all do."""
    import tensorflow as tf

    text = f"the chief could not write in `{label}`: {message}"
    if tensorflow is not None:
        kind: type[Exception] = tf.compat.v1.errors.exception_type_from_error_code(tensorflow)
        return kind(None, None, text)
    return OSError(errno, text) if is_os else WorkerFailed(text, hint="the chief's own log says more")
