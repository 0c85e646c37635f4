"""Iterators over datasets, let go of without waiting for the thread that tunes them.

TensorFlow tunes the pipeline of each iterator in a thread, which sleeps between two looks, longer each time, up to a
minute. Whatever drops an iterator wakes it up and waits for its end. But the thread is woken before it is noted that
the iterator is cancelled, so that it may find nothing and sleep on: then the end of a loop over a dataset takes up to a
minute (``CancellationManager::StartCancel`` runs callbacks first, ``Model::OptimizeLoop`` asks ``IsCancelled``).
"""

from __future__ import annotations

import signal
import threading
import weakref
from typing import Any

_USUAL_S = 1.0
"""By far enough for an iterator that is not asleep."""
_AGAIN_S = 0.02
"""By far enough for Python to leave what it calls when an object ends."""
_HELD = "_autodist_held"


def let_go_of_iterators_in_time() -> None:
    """Have the end of an iterator take a second at most from now on; what takes longer goes on alongside.

    For a process in which TensorFlow has been imported.
    """
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    OwnedIterator._iterator_resource = _Resource()


class _Resource:
    """The attribute by which an iterator holds its resource; its last reference, so that dropping it waits."""

    def __get__(self, iterator: Any, owner: Any = None) -> Any:
        if iterator is None:
            return self
        try:
            [resource] = iterator.__dict__[_HELD]
        except KeyError:
            raise AttributeError("_iterator_resource") from None
        return resource

    def __set__(self, iterator: Any, resource: Any) -> None:
        held = iterator.__dict__.get(_HELD)
        if held is None:
            held = iterator.__dict__[_HELD] = []
            weakref.finalize(iterator, _drop, held).atexit = False
        held[:] = [resource]


def _drop(held: list[Any]) -> None:
    """Let go of a resource in a thread, and wait for a moment, as plain TensorFlow waits."""
    thread = threading.Thread(target=held.clear, name="iterator's end", daemon=True)
    thread.start()
    try:
        thread.join(_USUAL_S)
    except KeyboardInterrupt:  # Python ignores what is raised here; the program must get it
        # A signal, since it also wakes a program that waits by then: `_thread.interrupt_main` would not.
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        again.daemon = True
        again.start()
