from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Space, TrialStore
from autodist.simulator import Domain
from tests.strategies.examples import graph, variable


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TrialStore]:
    """An empty store of trials."""
    with TrialStore(tmp_path / "trials.db") as opened:
        yield opened


@pytest.fixture
def space() -> Space:
    """Strategies for ten variables on three hosts, one of which has a slow link."""
    g = graph(*(variable(f"w{n}", (256, 16 * (1 + n % 5)), order=n) for n in range(10)))
    hosts = tuple(Host(name, name, bandwidth_gbps=0.1 if name == "c" else 1.0) for name in "abc")
    return Space(Domain.of(g, ResourceSpec(hosts)), communicators=("tcp", "collective"))
