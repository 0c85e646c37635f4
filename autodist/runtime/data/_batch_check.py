"""Each step checks that all workers have the same batch, before it changes anything.

Two numbers that represent the batch are summed over the workers, along with what a step joins anyway. A worker whose
own numbers are not the mean fails its step, and all assignments wait for that. For workers that do not wait for each
other, whose steps join nothing, the batches so far are compared when they meet.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from autodist.coordination import SAME_DATA, Worker
from autodist.errors import TimedOut, UsageError
from autodist.kernels import DIFFERENT_BATCHES, OTHER_ROWS
from autodist.runtime.data._arguments import Arguments
from autodist.runtime.data._convention import Convention
from autodist.runtime.data._fingerprints import fingerprint_of

_LONGEST_WAIT_S = 10.0  # all fail in the same step


class BatchCheck:
    """Compares the batches of a scope's steps.

    Args:
        worker: This process.
        convention: What a batch means.
        scope: What tells this scope from the others of the run.
    """

    def __init__(self, worker: Worker, convention: Convention, scope: str) -> None:
        self._worker = worker
        self._convention = convention
        self._prefix = f"batches/{scope}"

    def fingerprint(self, arguments: Arguments) -> int:
        """A hash of those arguments of a step that must be the same on all workers."""
        if self._worker.world_size == 1:
            return 0
        return fingerprint_of(arguments, own=self._convention.brings_own(arguments.is_local or arguments.is_global))

    @contextlib.contextmanager
    def refusing(self, fingerprint: int) -> Iterator[None]:
        """Say it plainly when the step inside fails because the workers have different batches.

        Args:
            fingerprint: Fingerprint of this worker's batch.

        Raises:
            UsageError: They have.
        """
        import tensorflow as tf

        try:
            yield
        except tf.errors.InvalidArgumentError as error:
            if OTHER_ROWS in str(error):
                raise UsageError(
                    f"step {self._worker.steps_taken + 1} is for batches of {_rows_in(str(error))} rows, and the parts "
                    "of all workers do not have that many in all; the step has changed nothing",
                    hint="give the step its parts as `ad.shard` yields them, with all of their rows",
                ) from error
            if DIFFERENT_BATCHES not in str(error):
                raise
            raise UsageError(
                f"{self._which(fingerprint)} in step {self._worker.steps_taken + 1}; a global batch, and what comes "
                "whole with it, must be the same on all workers; the step has changed nothing",
                hint=SAME_DATA,
            ) from error

    def _which(self, fingerprint: int) -> str:
        """Which workers have another batch than the chief."""
        coordinator, world_size = self._worker.coordinator, self._worker.world_size
        assert coordinator is not None
        key = f"{self._prefix}/{self._worker.steps_taken}"
        coordinator.put(f"{key}/{self._worker.rank}", str(fingerprint).encode())
        try:
            chief, *others = (int(coordinator.get(f"{key}/{rank}", _LONGEST_WAIT_S)) for rank in range(world_size))
        except TimedOut:
            return "a worker was given another batch than the chief"
        ranks = [str(rank) for rank, other in enumerate(others, 1) if other != chief]
        if len(ranks) > 1:
            return f"the workers {', '.join(ranks)} were given other batches than the chief"
        return f"worker {' '.join(ranks)} was given another batch than the chief"


def _rows_in(text: str) -> str:
    """The number of rows that TensorFlow's error adds to our words."""
    found = re.search(rf"{re.escape(OTHER_ROWS)} (\d+)", text)
    return "another number of" if found is None else found[1]
