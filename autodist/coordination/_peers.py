"""News about the other workers in a step's failure."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from autodist import carriers
from autodist.coordination._worker import Worker
from autodist.error_text import said_by
from autodist.errors import AutoDistError, WorkerFailed

_QUEUE_CLOSED = ("is closed",)
"""The words of an error if the server of a queue has failed."""


@contextlib.contextmanager
def peer_failures(worker: Worker) -> Iterator[None]:
    """Say it plainly when a step fails because another worker is gone."""
    import tensorflow as tf

    if worker.world_size == 1:
        yield
        return
    lost = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
    try:
        yield
    except lost as error:
        raise _peer_lost(error) from error
    except (tf.errors.OutOfRangeError, tf.errors.UnknownError, tf.errors.InternalError) as error:
        if any(all(words in error.message for words in told) for told in _told_by_others()):
            raise _peer_lost(error) from error
        raise


@contextlib.contextmanager
def holder_failures(worker: Worker, name: str, ranks: Sequence[int]) -> Iterator[None]:
    """Say it plainly when the value of a variable can't be had because a worker that holds it is gone.

    Args:
        worker: This process.
        name: The variable.
        ranks: The workers that hold parts of it.
    """
    import tensorflow as tf

    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        if worker.world_size == 1:
            raise
        held = " or ".join(map(str, worker.others(ranks)))
        raise WorkerFailed(
            f"worker {held}, where `{name}` lives, is gone",
            hint="its own log says why it ended; what was trained until then is in the last checkpoint",
        ) from error


def _told_by_others() -> list[tuple[str, ...]]:
    """Words of errors that only tell of another worker's; all parts of one of them."""
    return [_QUEUE_CLOSED, *(told for carrier in carriers.carriers() for told in carrier.peer_messages)]


def _peer_lost(error: Any) -> AutoDistError:
    # The launcher learns of the worker that failed first from that worker's own end; give it the time.
    time.sleep(2.0)
    return WorkerFailed(f"another worker is gone: {said_by(error)}", hint="its own log says why it ended")
