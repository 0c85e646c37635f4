from __future__ import annotations

from collections.abc import Callable

import pytest

from autodist.coordination import current_worker
from autodist.coordination._interruption import Interruption


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
