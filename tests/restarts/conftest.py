from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autodist.coordination import Worker, WorkerEnvironment, current_worker
from autodist.coordination._interruption import Interruption
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints


class Stop(BaseException):
    """Ends a process, as far as a test in one process can."""


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """TERM ends this process by `Stop`; what this returns makes it another process, that nobody wants to end."""

    def ends(self: Interruption) -> None:
        raise Stop

    def begin() -> None:
        monkeypatch.setattr(current_worker(), "interruption", Interruption(current_worker()))

    monkeypatch.setattr(Interruption, "end_by_term", ends)
    begin()
    return begin


@pytest.fixture
def checkpoints(tmp_path: Path) -> Callable[..., Checkpoints]:
    """Those of a loop, in one directory; as if each came from another process."""
    return lambda keep=2: Checkpoints(Worker(WorkerEnvironment()), tmp_path / "c", keep, CheckpointKind.LOOP)
