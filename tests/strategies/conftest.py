"""Plan files for a small graph on two hosts."""

import re

import pytest

from autodist.errors import StrategyError
from autodist.strategies import Manual
from autodist.strategies._builders import _manual

from .examples import BOTH, graph, spec, variable

G = graph(
    variable("embedding/table", (100, 8), sparse=True, order=3),
    variable("dense/kernel", (8, 4), order=2),
    variable("dense/bias", (4,), order=1),
    variable("head/kernel", (4, 2), order=0),
)
D = spec("h0", "h1")


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The strategy of a plan file."""
    monkeypatch.setattr(_manual, "installed_communicators", lambda: BOTH)

    def build(text, g=G, d=D):
        (tmp_path / "plan.yml").write_text(text)
        return Manual(str(tmp_path / "plan.yml")).build(g, d)

    return build


@pytest.fixture
def refused(build):
    """The mistakes of a plan file, by line."""

    def refused(text, g=G, d=D):
        with pytest.raises(StrategyError) as caught:
            build(text, g, d)
        return re.sub(r"\S*/plan\.yml", "plan.yml", caught.value.message).splitlines()

    return refused
