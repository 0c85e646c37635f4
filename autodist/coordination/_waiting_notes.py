"""Where the workers of a run wait for each other outside of steps, so that a step that waits in vain finds out why."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from autodist.coordination._member import Member
from autodist.errors import AutoDistError


@dataclass(frozen=True)
class WorkerPosition:
    """Where another worker is.

    Attributes:
        words: What it does there, to follow the worker's name.
        is_for_good: Whether it takes part in no step any more.
    """

    words: str
    is_for_good: bool


class WaitingNotes:
    """Notes of all workers on what they wait for between two steps; each worker has one note."""

    def __init__(self, worker: Member) -> None:
        self._worker = worker
        self._stays = False
        self._place = ""

    @contextlib.contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Leave a note while this worker waits for all others at the same place, unless it has left one for good.

        Args:
            place: What it does there, in words that follow the worker's name: "has left the scope".
        """
        outer, self._place = self._place, place
        self._note(place)
        try:
            yield
        finally:
            self._place = outer
            self._note(outer)

    def stay(self, place: str) -> None:
        """Leave a note for good: this worker takes part in no step any more, whatever its script does."""
        self._note(place, is_for_good=True)
        self._stays = True

    def take_part(self) -> None:
        """Take back what :meth:`stay` has noted: this worker takes part in a step again, of another scope."""
        if self._stays:
            self._stays = False
            self._note("")

    def elsewhere(self) -> dict[int, WorkerPosition]:
        """By rank, where others wait that should be in the step that this worker is in."""
        found = {}
        for rank in range(self._worker.world_size):
            place, steps, is_for_good = self._read(rank) if rank != self._worker.rank else ("", 0, False)
            if place and steps <= self._worker.steps_taken:
                after = "" if is_for_good else f" after {steps} step{'' if steps == 1 else 's'}"
                found[rank] = WorkerPosition(f"{place}{after}", is_for_good)
        return found

    def _note(self, place: str, *, is_for_good: bool = False) -> None:
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1 or self._stays:
            return
        note = json.dumps([place, self._worker.steps_taken, is_for_good]).encode()
        with contextlib.suppress(AutoDistError):  # what the worker is about to do fails with the better error
            coordinator.put(f"whereabouts/{self._worker.rank}", note)

    def _read(self, rank: int) -> tuple[str, int, bool]:
        coordinator = self._worker.coordinator
        if coordinator is None:
            return "", 0, False
        try:
            place, steps, is_for_good = json.loads(coordinator.get(f"whereabouts/{rank}", timeout_s=0.0))
        except AutoDistError:  # it has left none so far
            return "", 0, False
        return place, steps, is_for_good
