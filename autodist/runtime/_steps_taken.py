"""All workers wait until the servers have applied what was sent to them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence

from autodist.coordination import DEFAULT_STEP_TIMEOUT_S, Worker
from autodist.errors import TimedOut
from autodist.runtime._step import CompiledStep

_SAY_EVERY_S = 2.0
_LOOK_EVERY_S = 1.0


class StepsTaken:
    """The workers' messages to each other about the steps that they have taken in a scope.

    With asynchronous servers a worker may be many steps ahead of another, so one that has finished waits for another as
    long as that one makes progress.

    Args:
        worker: This process.
        scope: What tells this scope from the others of the run.
    """

    def __init__(self, worker: Worker, scope: str) -> None:
        self._worker = worker
        self._scope = scope
        self._number = 0
        self._said = 0.0
        environment = worker.environment
        self._timeout_s = environment.step_timeout_s or DEFAULT_STEP_TIMEOUT_S
        self._patience_s = max(self._timeout_s, environment.start_timeout_s)

    def say(self) -> None:
        """Tell the others, every now and then, that this worker makes progress."""
        now = time.monotonic()
        if now - self._said > _SAY_EVERY_S and self._worker.coordinator is not None:
            self._said = now
            self._worker.coordinator.put(self._progress_of(self._worker.rank), str(self._worker.steps_taken).encode())

    def settle(self, steps: Sequence[CompiledStep]) -> None:
        """Wait until the updates of all workers' steps have been applied, wherever their servers are.

        Every worker says how many steps it has taken, so that each server knows how many messages are to come. Where
        workers themselves have kept gradients for later steps, they all are here then, and have kept the same.

        Args:
            steps: The steps with asynchronous servers, or with such gradients, the same on all workers.

        Raises:
            TimedOut: A server has not applied them within the time of a step, or a worker neither comes nor gets on.
            UsageError: The workers have taken different numbers of steps under a bounded staleness.
        """
        coordinator = self._worker.coordinator
        assert coordinator is not None, "only workers of a run may apply updates later than in their steps"
        self._number += 1
        key = f"settled/{self._scope}/{self._number}"
        with self._worker.whereabouts.at("waits for all updates to be applied"):
            coordinator.put(f"{key}/{self._worker.rank}", json.dumps([step.taken for step in steps]).encode())
            taken = [json.loads(self._await(f"{key}/{rank}", rank)) for rank in range(self._worker.world_size)]
            for number, step in enumerate(steps):
                for server in step.servers:
                    server.wait_for(server.expected_rounds([counts[number] for counts in taken]), self._timeout_s)
            coordinator.barrier(f"{key}/applied", self._patience_s)

    def _await(self, key: str, rank: int) -> bytes:
        """Another worker's message; waits for it as long as that worker makes progress."""
        coordinator = self._worker.coordinator
        assert coordinator is not None
        seen, since = b"", time.monotonic()
        while True:
            with contextlib.suppress(TimedOut):
                return coordinator.get(key, _LOOK_EVERY_S)
            with contextlib.suppress(TimedOut):
                progress = coordinator.get(self._progress_of(rank), 0.0)
                if progress != seen:
                    seen, since = progress, time.monotonic()
            if time.monotonic() - since > self._patience_s:
                raise TimedOut(
                    f"worker {self._worker.rank} has finished its steps, but worker {rank} has neither finished nor "
                    f"taken a step within {self._patience_s:g} s",
                    hint="see the log of that worker",
                )

    def _progress_of(self, rank: int) -> str:
        return f"progress/{self._scope}/{rank}"
