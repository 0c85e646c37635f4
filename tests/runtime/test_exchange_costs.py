"""What is exchanged in the midst of a step is told of where it takes a part of the step that counts."""

import logging
from types import SimpleNamespace

import pytest

from autodist.graph.layouts import Exchanged
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime._exchange_costs import ExchangeCosts

EXCHANGED = (Exchanged("dense/BiasAdd", "BiasAdd", "train.py:31", "gathered", 25_000_000),)  # 0.1 s at 1 Gbit/s
CHIEF = SimpleNamespace(is_chief=True)


class Step:
    def __init__(self, has_tiles=False):
        self.graph = SimpleNamespace(exchanged=EXCHANGED, has_tiles=has_tiles)
        self.captured = SimpleNamespace(graph=SimpleNamespace(shares_examples=False))


def spec(hosts):
    return ResourceSpec(tuple(Host(f"h{k}", f"h{k}") for k in range(hosts)))


@pytest.mark.parametrize(
    ("hosts", "step_s", "has_tiles", "said"),
    [(2, 1.0, False, 1), (2, 2.5, False, 0), (1, 1.0, False, 0), (2, 1.0, True, 0)],
)
def test_more_than_a_twentieth_of_a_step_is_told_once(hosts, step_s, has_tiles, said, caplog):
    """But not where tiles make activations travel in the place of gradients."""
    costs, step = ExchangeCosts(CHIEF, spec(hosts)), Step(has_tiles)
    with caplog.at_level(logging.WARNING, "autodist"):
        for k in range(40):
            costs.after_step(step, 60.0 if k < 3 else step_s)  # the first ones take longer
    assert len(caplog.records) == said
    for record in caplog.records:
        text = record.getMessage()
        assert "12.5 MB" in text
        assert "about 10 % of its time" in text
        assert "`dense/BiasAdd` (BiasAdd) at train.py:31 gathered, 25 MB" in text
