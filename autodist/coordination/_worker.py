"""The worker that this process is: a member of the run that can be interrupted, and that says where it waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._interruption import Interruption
from autodist.coordination._member import Member
from autodist.coordination._waiting_notes import WaitingNotes
from autodist.coordination._worker_environment import WorkerEnvironment


class Worker(Member):
    """The process in the run.

    Attributes:
        steps_restored: Training steps of earlier attempts that a checkpoint has brought back.
        in_step: True while a step blocks on other workers, or this one connects to them, False between steps, None if
            unknown. With it the launcher tells a worker that waits for others from one that saves a model.
        nothing_left: Whether a `fit` in a scope had no epochs left, as that of a training that has ended before.
        interruption: Where a requested end reaches the script.
        whereabouts: Where the workers wait for each other outside of steps.
    """

    __slots__ = ("_exit_callbacks", "in_step", "interruption", "nothing_left", "steps_restored", "whereabouts")

    def __init__(self, environment: WorkerEnvironment, coordinator: CoordinatorClient | None = None) -> None:
        super().__init__(environment, coordinator)
        self.steps_restored = 0
        self.in_step: bool | None = None
        self.nothing_left = False
        self.interruption = Interruption(self)
        self.whereabouts = WaitingNotes(self)
        self._exit_callbacks: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def connecting(self) -> Iterator[None]:
        """Note that this worker waits for others while inside, as it does in a step."""
        before, self.in_step = self.in_step, True
        try:
            yield
        finally:
            self.in_step = before

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when the script has ended, last registered first.

        Only the bootstrap of ``autodist run`` calls them; a script run alone ends like any Python script. After a
        failure they are called as well, with every wait on the coordinator failing at once.
        """
        self._exit_callbacks.append(callback)

    def not_on_exit(self, callback: Callable[[], None]) -> None:
        """Undo a call of :meth:`on_exit`."""
        self._exit_callbacks.remove(callback)

    def take_exit_callbacks(self) -> tuple[Callable[[], None], ...]:
        """Return the registered callbacks in the order to call them; each is handed out once."""
        callbacks = tuple(reversed(self._exit_callbacks))
        self._exit_callbacks.clear()
        return callbacks

    def __repr__(self) -> str:
        return f"Worker(rank={self.rank}, world_size={self.world_size}, steps_taken={self.steps_taken})"


_current: Worker | None = None


def current_worker() -> Worker:
    """Return the worker that this process is; for a script run by plain ``python``, rank 0 of 1 without a coordinator.

    Raises:
        LaunchError: The environment names a run but lacks what a worker of it needs.
    """
    global _current
    if _current is None:
        environment = WorkerEnvironment.from_environ()
        client = CoordinatorClient.of(environment) if environment.is_launched else None
        _current = Worker(environment, client)
    return _current
