"""A queue for signal handlers, and for the threads that they interrupt."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class SignalQueue(Generic[T]):
    """Hands things on from any thread, and from signal handlers, to one thread.

    A handler that interrupts its own thread inside of ``queue.Queue`` waits for itself. ``queue.SimpleQueue`` lets it
    in, but before Python 3.13 its ``get`` never returns if a handler interrupts it after its time has passed, which is
    what happens to a process that was stopped and goes on.

    Example:
        >>> numbers: SignalQueue[int] = SignalQueue()
        >>> numbers.put(3)
        >>> numbers.get(1.0), numbers.get(0.0)
        (3, None)
    """

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        # Released while there may be something new: `get` acquires it, looks, and waits again if there is nothing.
        self._bell = threading.Lock()

    def put(self, thing: T) -> None:
        """Add something; never blocks."""
        self._things.append(thing)
        with contextlib.suppress(RuntimeError):  # it is free already
            self._bell.release()

    def get(self, timeout_s: float) -> T | None:
        """Return the oldest thing, None if there is none within the time."""
        until_s = time.monotonic() + timeout_s
        while not self._things:
            if not self._bell.acquire(timeout=max(until_s - time.monotonic(), 0.0)):
                break
        return self._things.popleft() if self._things else None

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._things
