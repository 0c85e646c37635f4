from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autodist.search import TrialStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TrialStore]:
    """An empty store of trials."""
    with TrialStore(tmp_path / "trials.db") as opened:
        yield opened
