from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.processes import MARK, left


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch):
    """Marks all that a test starts; nothing of it may be there afterwards."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield mark
    assert left(mark) == []


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the directories of runs are made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"
