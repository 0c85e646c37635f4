"""Serving: a thread per kind of round applies what workers send to the parameter server of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from autodist.errors import TimedOut, UsageError
from autodist.kernels import Serving

_LOG = logging.getLogger("autodist")
_STOP_TIMEOUT_S = 5.0


class Server:
    """Applies rounds until it is stopped, or one fails.

    A round waits in the session until its messages are there; to stop, its queues are closed. What fails here fails the
    workers' steps: their queues are closed as well, and this process' next step raises the reason.
    """

    def __init__(self, serving: Serving, run_round: Callable[[], object], close_queues: Callable[[], object]) -> None:
        self.serving = serving
        self.failure: Exception | None = None
        self._run_round = run_round
        self._close_queues = close_queues
        self._rounds = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name=f"autodist serves {serving.name}", daemon=True)
        self._thread.start()

    @property
    def rounds(self) -> int:
        """Rounds applied so far."""
        return self._rounds  # without the lock: one thread alone changes it

    def expected_rounds(self, steps: Sequence[int]) -> int:
        """How many rounds the workers' messages make.

        Args:
            steps: By rank, the steps that it has taken.

        Raises:
            UsageError: A round takes a message of every worker, but they have taken different numbers of steps.
        """
        self._check_together(steps)
        sent = sum(count * taken for count, taken in zip(self.serving.messages, steps, strict=True))
        return sent // self.serving.per_round

    def _check_together(self, steps: Sequence[int]) -> None:
        taken = {count for count, sends in zip(steps, self.serving.messages, strict=True) if sends}
        if self.serving.per_round > 1 and len(taken) > 1:
            raise UsageError(
                f"the workers have taken {', '.join(map(str, steps))} steps, by rank; with a bounded staleness each "
                "update takes a gradient of every worker",
                hint="give all workers equally many batches, or use asynchronous servers (`sync` false)",
            )

    def wait_for(self, rounds: int, timeout_s: float) -> None:
        """Wait until this many rounds have been applied.

        Raises:
            TimedOut: They were not within the time.
            Exception: What has failed.
        """
        with self._changed:
            done = self._changed.wait_for(lambda: self.failure is not None or self._rounds >= rounds, timeout_s)
        self.check()
        if not done:
            raise TimedOut(
                f"the server of `{self.serving.name}` has applied {self._rounds} of {rounds} rounds of updates within "
                f"{timeout_s:g} s",
                hint="a worker has stopped, or takes fewer steps than the others",
            )

    def check(self) -> None:
        """Raise what has failed, if anything has."""
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """End the thread; what has arrived and makes no whole round is lost."""
        if self._thread.is_alive():
            self._stopping = True  # first: the round that ends because its queues close has not failed
            self._close()
            self._thread.join(_STOP_TIMEOUT_S)

    def _serve(self) -> None:
        while True:
            try:
                self._run_round()
            except Exception as error:
                if not self._stopping:
                    self._fail(error)
                return
            with self._changed:
                self._rounds += 1
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        _LOG.error("the server of `%s` failed: %s", self.serving.name, error)
        with self._changed:
            self.failure = error
            self._changed.notify_all()
        self._close()  # last: the steps that fail by it find the reason

    def _close(self) -> None:
        try:
            self._close_queues()
        except Exception as error:  # the session is gone, and its queues with it
            _LOG.debug("closing the queues of `%s`: %s", self.serving.name, error)
