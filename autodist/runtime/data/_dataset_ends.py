"""Datasets of which each worker reads its own part: the workers reach their ends after different numbers of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autodist.coordination import CoordinatorClient
from autodist.errors import TimedOut

_LONGEST_WAIT_S = 3600.0  # for a worker to begin; the launcher notices sooner one that makes no progress


@dataclass(frozen=True)
class DatasetEnds:
    """After how many batches each worker's part of one pass over a dataset ends.

    A worker says so before it takes the step on its last batch. Steps are synchronous: when one is done, all workers
    have begun it, so all that had their last batch by then have said so. A worker that has not, goes on. Before the
    first step nothing is known of the others, so each says at once whether it has any batch at all.

    Attributes:
        coordinator: What the workers tell each other by.
        key: What tells this pass from all others.
        rank: Rank of this worker.
        world_size: Number of workers, at least 1.
    """

    coordinator: CoordinatorClient
    key: str
    rank: int
    world_size: int

    def begin(self, has_any: bool) -> bool:
        """Say whether this worker has any batch, and return whether any worker has; waits for the others if need be.

        Raises:
            TimedOut: A worker does not begin the pass.
        """
        self.coordinator.put(f"{self.key}/{self.rank}/any", b"1" if has_any else b"0")
        others = (rank for rank in range(self.world_size) if rank != self.rank)
        return has_any or any(
            self.coordinator.get(f"{self.key}/{rank}/any", _LONGEST_WAIT_S) == b"1" for rank in others
        )

    def say(self, batches: int) -> None:
        """Tell the others that this worker's part has this many batches."""
        self.coordinator.put(f"{self.key}/{self.rank}", str(batches).encode())

    def last(self) -> int | None:
        """The largest number of batches; None while there is a worker that has not come to its last one."""
        counts = []
        for rank in range(self.world_size):
            try:
                counts.append(int(self.coordinator.get(f"{self.key}/{rank}", 0.0)))
            except TimedOut:
                return None
        return max(counts)


def going_on_together(
    batches: Iterator[Any], ends: DatasetEnds, empty: Callable[[Any], Any], check: Callable[[], None]
) -> Iterator[Any]:
    """This worker's batches, then empty ones until the last worker has had its last.

    Args:
        batches: Batches of this worker.
        ends: Ends of this pass.
        empty: Makes an empty batch like another one, or of nothing if it is None.
        check: Called before each batch.
    """
    taken = 0
    batch = None
    following = next(batches, None)
    if not ends.begin(following is not None):
        return
    if following is None:
        ends.say(0)
    while following is not None:
        batch, following = following, next(batches, None)
        taken += 1
        if following is None:
            ends.say(taken)
        check()
        yield batch
    nothing = empty(batch)
    while (last := ends.last()) is None or last > taken:
        taken += 1
        check()
        yield nothing
