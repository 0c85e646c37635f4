"""The strategies of these tests, and test parameters of cases and places."""

from pathlib import Path

import pytest

from .runs import Place

SERVERS = "PSLoadBalancing"
COLLECTIVE = "AllReduce(communicator='collective')"
HOROVOD = "AllReduce(communicator='horovod')"
PARALLAX = "Parallax(communicator='horovod')"
MIXED = str(Path(__file__).with_name("mixed.yml"))
STRATEGIES = (SERVERS, COLLECTIVE, HOROVOD, PARALLAX, MIXED)
WORKERS = (2, 3)
QUICK = (SERVERS, 2)


def parameters(names, quick):
    """Every case with every strategy, on both numbers of workers; those of `quick` are not slow at one place."""
    for number, name in enumerate(names):
        chosen = [(strategy, WORKERS[(number + k) % len(WORKERS)]) for k, strategy in enumerate(STRATEGIES)]
        for strategy, workers in dict.fromkeys([*chosen, *([QUICK] if name in quick else [])]):
            yield parameter(name, strategy, workers, slow=name not in quick or (strategy, workers) != QUICK)


def parameter(case, strategy, workers, *, slow):
    marks = [pytest.mark.slow] if slow else []
    marks += [pytest.mark.horovod] if "horovod" in strategy else []
    label = strategy.partition("communicator=")[2].strip("')") if strategy.startswith("AllReduce") else strategy
    label = Path(label.partition("(")[0]).stem
    return pytest.param(case, Place(strategy, workers), marks=marks, id=f"{case}-{label}-{workers}")
