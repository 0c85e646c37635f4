"""A process of a run: its environment, its rank and its line to the coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._worker_environment import WorkerEnvironment


class Member:
    """A process of the run, as far as it can wait for others.

    Attributes:
        environment: What the launcher said.
        coordinator: The line to the other workers; None for a script run alone.
        steps_taken: Training steps done so far; the runtime adds one per step. A plain attribute, so that it costs
            nothing; the bootstrap reports it to the launcher every few seconds.
    """

    __slots__ = ("coordinator", "environment", "steps_taken")

    def __init__(self, environment: WorkerEnvironment, coordinator: CoordinatorClient | None = None) -> None:
        self.environment = environment
        self.coordinator = coordinator
        self.steps_taken = 0

    @property
    def rank(self) -> int:
        """The process among all workers, from 0."""
        return self.environment.rank

    @property
    def world_size(self) -> int:
        """Workers in the run, at least 1."""
        return self.environment.world_size

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0."""
        return self.environment.is_chief

    def others(self, ranks: Sequence[int]) -> list[int]:
        """Those of some ranks that are not this worker's; its own, if there are no others."""
        return [rank for rank in ranks if rank != self.rank] or [self.rank]
