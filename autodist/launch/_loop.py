"""An asyncio loop in a thread of its own: connections live there, while the launcher itself waits for events."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_END_S = 5.0
_LOOK_S = 0.1


class LoopThread:
    """Runs coroutines for threads that are not asynchronous; a context manager.

    Example:
        >>> async def answer() -> int:
        ...     return 42
        >>> with LoopThread() as loop:
        ...     loop.run(answer())
        42
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="connections", daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(concurrent.futures.TimeoutError):
            # Before the loop stops: a stopped one runs no clean-up of what was cancelled.
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(_END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        if not self._thread.is_alive():
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], is_cancelled: Callable[[], bool] = lambda: False) -> T:
        """Return the coroutine's result; it bounds its own waits.

        Args:
            coroutine: What to run.
            is_cancelled: Asked several times a second; once it is true, the coroutine is cancelled.

        Raises:
            concurrent.futures.CancelledError: It was cancelled.
        """
        future = self.start(coroutine)
        while True:
            try:
                return future.result(_LOOK_S)
            except concurrent.futures.TimeoutError:
                # In newer Pythons the same class as the one that the coroutine itself may raise.
                if future.done():
                    return future.result()
                if is_cancelled():
                    future.cancel()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine alongside everything else."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


async def _cancel_all() -> None:
    """End what still runs, and let it clean up."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), _END_S)
