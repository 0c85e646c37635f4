"""Where the workers of a run wait for each other outside of steps, so that a step that waits in vain finds out why."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from autodist.errors import AutoDistError
from autodist.runtime._worker import Worker

__all__ = ["Whereabouts"]


class Whereabouts:
    """Notes of all workers on what they wait for between two steps.

    Args:
        worker: Who this process is.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._standing = ""

    @contextlib.contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Leave a note while this worker waits for all others at the same place.

        Args:
            place: What it does there, in words that follow the worker's name: "has left the scope".
        """
        self._note(place)
        try:
            yield
        finally:
            self._note(self._standing)

    def stay(self, place: str) -> None:
        """Leave a note for good: this worker takes part in no step any more, whatever its script does."""
        self._standing = place
        self._note(place)

    def elsewhere(self) -> dict[int, str]:
        """By rank, where others wait that should be in the step that this worker is in."""
        found = {}
        for rank in range(self._worker.world_size):
            place, steps = self._read(rank) if rank != self._worker.rank else ("", 0)
            if place and steps <= self._worker.steps_taken:
                found[rank] = f"{place} after {steps} step{'' if steps == 1 else 's'}"
        return found

    def _note(self, place: str) -> None:
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1:
            return
        note = json.dumps([place, self._worker.steps_taken]).encode()
        with contextlib.suppress(AutoDistError):  # what the worker is about to do fails with the better error
            coordinator.put(f"whereabouts/{self._worker.rank}", note)

    def _read(self, rank: int) -> tuple[str, int]:
        coordinator = self._worker.coordinator
        if coordinator is None:
            return "", 0
        try:
            place, steps = json.loads(coordinator.get(f"whereabouts/{rank}", timeout_s=0.0))
        except AutoDistError:  # it has left none so far
            return "", 0
        return place, steps
