"""Decisions of a ``fit``'s callbacks, agreed on by all workers.

A callback runs on every worker. One that looks at the clock, at a file or at the machine may decide differently on
different workers: to stop, to change the learning rate. Then workers would wait for each other in vain, or drift apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from autodist.coordination import (
    DEFAULT_STEP_TIMEOUT_S,
    SAME_DATA,
    CoordinatorClient,
    Worker,
    digest,
    receive_value,
    send_value,
)
from autodist.errors import TimedOut, UsageError
from autodist.runtime.state import StateStore

_IN_FIT = "begins, ends or goes on with `fit`"
_IN_ORDER = (
    "all workers must call `fit`, `evaluate` and `predict` in the same order, with as many batches; in "
    "`scope(evaluation='whole')` some may evaluate alone"
)


class Decisions:
    """Agreement of all workers of a run, through the coordinator.

    Args:
        worker: This process.
        state: The scope's variables.
        scope: What tells this scope from the others of the run.
    """

    def __init__(self, worker: Worker, state: StateStore, scope: str) -> None:
        self._worker = worker
        self._state = state
        self._prefix = f"decisions/{scope}"
        environment = worker.environment
        # Others may wait here for as long as the chief needs to save a model.
        self._timeout_s = max(environment.step_timeout_s or DEFAULT_STEP_TIMEOUT_S, environment.start_timeout_s)
        self._number = 0
        self._seen = hashlib.blake2b(digest_size=16)
        self._batches = 0

    def note_batch(self, fingerprint: int) -> None:
        """Note a hash of a batch that all workers should have, so that the next agreement finds out whether they do."""
        self._batches += 1
        self._seen.update(fingerprint.to_bytes(8, "little"))

    def compare_batches(self, place: str) -> None:
        """Check that workers which have had equally many batches have had the same ones.

        Args:
            place: What all do here, in words that follow a worker's name.

        Raises:
            TimedOut: Another worker does not come here.
            UsageError: It is at another place, or the workers have had different batches.
        """
        self._check_batches(self._everyone([self._batches, self._seen.hexdigest()], place))

    def meet(self, place: str) -> None:
        """Wait for the other workers, which must come to the same place.

        Args:
            place: What all do here, in words that follow a worker's name: "has left the scope".

        Raises:
            TimedOut: Another worker does not come.
            UsageError: It is at another place.
        """
        self._everyone(None, place)

    def anyone(self, flags: Sequence[bool]) -> list[bool]:
        """Per flag, whether it is set on any worker."""
        return [any(said) for said in zip(*self._everyone(list(flags), _IN_FIT), strict=True)]

    def are_alike(self, numbers: Sequence[float], tolerance: float, place: str) -> bool:
        """Whether all workers have the same numbers, to a tolerance relative to the largest one.

        Args:
            numbers: Those of this worker.
            tolerance: How much they may differ.
            place: What all do here, in words that follow a worker's name.

        Raises:
            TimedOut: Another worker does not come here.
            UsageError: It is at another place.
        """
        everyone = np.array(self._everyone(list(numbers), place), np.float64)
        bound = tolerance * np.max(np.abs(everyone), initial=0.0, where=np.isfinite(everyone))
        return bool(np.allclose(everyone, everyone[0], rtol=0.0, atol=bound, equal_nan=True))

    def agree(self, stop: bool, place: str = _IN_FIT) -> bool:
        """Whether any worker wants to stop. What the program has assigned on some workers only is assigned on all.

        If several workers have assigned different values, that of the lowest rank counts.

        Args:
            stop: Whether this worker wants to.
            place: What all do here, in words that follow a worker's name.

        Raises:
            TimedOut: Another worker does not come here.
            UsageError: It is at another place, or the workers have had different batches.
        """
        names = self._state.take_assigned()
        digests = {name: digest([self._state.value(name)]) for name in names}
        everyone = self._everyone([stop, digests, self._batches, self._seen.hexdigest()], place)
        self._check_batches([said[2:] for said in everyone])
        self._adopt([said[1] for said in everyone])
        return any(said[0] for said in everyone)

    def _check_batches(self, seen: Sequence[Any]) -> None:
        (batches, chief), *others = seen
        for rank, (count, digest_of_all) in enumerate(others, 1):
            if count == batches and digest_of_all != chief:
                raise UsageError(
                    f"worker {rank} has had other batches than the chief, but a global batch is the same everywhere",
                    hint=SAME_DATA,
                )

    def of_chief(self, logs: dict[str, Any]) -> dict[str, Any]:
        """The numbers in the chief's logs; other workers' may be rounded differently, or come from less data."""
        mine = {name: value for name, value in logs.items() if isinstance(value, bool | int | float)}
        found: dict[str, Any] = self._everyone(mine if self._worker.is_chief else None, _IN_FIT)[0]
        return found

    def _everyone(self, mine: Any, here: str) -> list[Any]:
        """The messages of all workers, by rank."""
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1:
            return [json.loads(json.dumps(mine))]
        with self._worker.interruption.together():
            return self._said(coordinator, mine, here)

    def _said(self, coordinator: CoordinatorClient, mine: Any, here: str) -> list[Any]:
        self._number += 1
        # Two keys are enough: a worker writes to one again only after all have read the other.
        key = f"{self._prefix}/{self._number % 2}"
        with self._worker.whereabouts.at(here):
            coordinator.put(f"{key}/{self._worker.rank}", json.dumps([here, mine]).encode())
            try:
                coordinator.barrier(f"{key}/said", self._timeout_s)
            except TimedOut as error:
                raise TimedOut(f"worker {self._worker.rank} {here}, but {error.message}", hint=_IN_ORDER) from error
            said = [json.loads(coordinator.get(f"{key}/{rank}", 0.0)) for rank in range(self._worker.world_size)]
        places = {place: rank for rank, (place, _) in enumerate(said)}
        if len(places) > 1:
            raise UsageError("; ".join(f"worker {rank} {place}" for place, rank in places.items()), hint=_IN_ORDER)
        return [content for _, content in said]

    def _adopt(self, digests: Sequence[dict[str, str]]) -> None:
        """Have every worker assign what some have assigned."""
        sent: list[str] = []
        coordinator, timeout_s = self._worker.coordinator, self._timeout_s
        different = [
            name for name in sorted({n for d in digests for n in d}) if len({d.get(name) for d in digests}) > 1
        ]
        if coordinator is None or not different:
            return
        for k, name in enumerate(different):
            source = next(rank for rank, assigned in enumerate(digests) if name in assigned)
            key = f"{self._prefix}/values/{k}"
            if source == self._worker.rank:
                sent += send_value(coordinator, key, self._state.value(name))
        coordinator.barrier(f"{self._prefix}/sent", timeout_s)
        for k, name in enumerate(different):
            source = next(rank for rank, assigned in enumerate(digests) if name in assigned)
            if digests[self._worker.rank].get(name) != digests[source][name]:
                like = self._state.value(name)
                self._state.assign(name, receive_value(coordinator, f"{self._prefix}/values/{k}", timeout_s, like))
        coordinator.barrier(f"{self._prefix}/received", timeout_s)
        for key in sent:
            coordinator.put(key, b"")  # else the value stays in the launcher's memory until the run ends
