"""Every optimizer trains as on one device, on two and three workers, its variables whole and in parts."""

from pathlib import Path

import pytest

from . import optimizers
from .partitioned import LAYINGS
from .runs import OWN, Place, quick_place

pytestmark = pytest.mark.timeout(3000)  # the first test of a place runs all cases of that place

STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='collective')",
    "Parallax(communicator='horovod')",
    str(Path(__file__).with_name("whole.yml")),
)
WORKERS = (2, 3)
QUICK = {("optimizer-overflow", STRATEGIES[0], 2)}
"""In the launch that other cases share; test_partitions.py has optimizers of variables in parts."""


def parameters():
    """Keras' optimizers everywhere, all else at two places each; in parts, each with every laying."""
    for k, name in enumerate(optimizers.OPTIMIZERS):
        strategies = STRATEGIES[:3] if name in optimizers.COUPLED else STRATEGIES
        places = [Place(strategy, workers) for workers in WORKERS for strategy in strategies]
        everywhere = name in (*optimizers.KERAS, "overflow")
        for place in places if everywhere else (places[k % 3], places[-1 - (k + 1) % 3]):
            yield parameter(f"optimizer-{name}", place, "horovod" in place.strategy or place.strategy == STRATEGIES[3])
    for k, name in enumerate(optimizers.PARTITIONED):
        for number, laying in enumerate(LAYINGS[k % 4 :] + LAYINGS[: k % 4]):
            label = "servers" if laying in ("servers", "mixed") else "collectives"  # these can't share a start
            place = Place(OWN, WORKERS[number % 2], label=f"partitioned {label}")
            yield parameter(f"optimizer-{name}@{laying}", place, laying in ("horovod", "mixed"))


def parameter(case, place, horovod):
    where = Path(place.strategy).stem.partition("(")[0]
    is_quick = (case, place.strategy, place.workers) in QUICK
    marks = [] if is_quick else [pytest.mark.slow]
    marks += [pytest.mark.horovod] if horovod else []
    if is_quick:
        behind, place = quick_place(STRATEGIES[0])
        case += behind
    return pytest.param(case, place, marks=marks, id=f"{case}-{where}-{place.workers}")


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
