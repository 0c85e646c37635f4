"""Batches of loops over sharded datasets: a step is given this worker's part of them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

from autodist.coordination import Worker
from autodist.errors import UsageError
from autodist.runtime.data._dataset_ends import DatasetEnds
from autodist.runtime.data._sharded_dataset import DatasetPasses

_LOG = logging.getLogger("autodist")


class LocalBatches:
    """State that loops over sharded datasets share with steps.

    Args:
        worker: This process.
        scope: What tells this scope from the others of the run.
        has_asynchronous: Tells whether there are steps that not all workers take together.

    Attributes:
        is_pending: Whether the program is in such a loop, and has not yet given a step the batch that it got there.
    """

    def __init__(self, worker: Worker, scope: str, has_asynchronous: Callable[[], bool] = lambda: False) -> None:
        self.is_pending = False
        self._worker = worker
        self._scope = scope
        self._has_asynchronous = has_asynchronous
        self._datasets = 0
        self._has_warned = False
        self._told: set[str] = set()

    def passes(self) -> DatasetPasses:
        """The callbacks for the loops over one more sharded dataset."""
        self._datasets += 1
        coordinator, number = self._worker.coordinator, itertools.count()
        prefix = f"ends/{self._scope}/{self._datasets}"

        def handed_out(pending: bool) -> None:
            if pending and self.is_pending:
                self._warn_of_lost_batch()
            self.is_pending = pending

        def begin() -> DatasetEnds:
            assert coordinator is not None
            return DatasetEnds(coordinator, f"{prefix}/{next(number)}", self._worker.rank, self._worker.world_size)

        is_alone = coordinator is None or self._worker.world_size == 1
        return DatasetPasses(handed_out, None if is_alone else begin, self._check_ends_can_be_told, self._told)

    def _warn_of_lost_batch(self) -> None:
        if self._worker.is_chief and self._worker.world_size > 1 and not self._has_warned:
            _LOG.warning(
                "a loop over `ad.shard(dataset)` goes on to the next batch, and has given the last one to no step. "
                "What is computed from it outside of steps, such as metrics, is computed from each worker's part "
                "alone: do that in an `@ad.function`, or loop over the dataset itself"
            )
        self._has_warned = True

    def _check_ends_can_be_told(self) -> None:
        if self._has_asynchronous():
            raise UsageError(
                "data sharded by file or by element needs steps that all workers take together, but the strategy has "
                "parameter servers with `sync=False` or a `staleness`",
                hint="`ad.shard(dataset, by='batch')`, or a synchronous strategy",
            )

    def check_is_whole(self, local: bool) -> None:
        """Check that a step which takes whole batches is not given a part of one that has lost its type on the way.

        Args:
            local: Whether the step knows its batch as this worker's part.

        Raises:
            UsageError: It is.
        """
        if self.is_pending and not local and self._worker.world_size > 1:
            raise UsageError(
                "the loop is over `ad.shard(dataset)`, whose batches are this worker's parts, but the step was given "
                "an array made from one of them, which looks like a whole batch",
                hint="do what changes the batch in `dataset.map(...)` before `ad.shard`, or in the step; or, if every "
                "batch is local, open the scope by `scope(batch='local')`",
            )
        self.is_pending = False
