"""Every optimizer trains as on one device, on two and three workers, its variables whole and in parts."""

from pathlib import Path

import pytest

from . import optimizers
from .partitioned import LAYINGS
from .runs import OWN, Place

pytestmark = pytest.mark.timeout(3000)  # the first test of a place runs all cases of that place

STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='collective')",
    "Parallax(communicator='horovod')",
    str(Path(__file__).with_name("mixed.yml")),
)
WORKERS = (2, 3)


def parameters():
    """Keras' optimizers everywhere, all else at two places each; in parts, each with every laying."""
    places = [Place(strategy, workers) for workers in WORKERS for strategy in STRATEGIES]
    for k, name in enumerate(optimizers.OPTIMIZERS):
        for place in places if name in optimizers.KERAS else (places[k % 4], places[4 + (k + 1) % 4]):
            yield parameter(f"optimizer-{name}", place, "horovod" in place.strategy)
    for k, name in enumerate(optimizers.PARTITIONED):
        for number, laying in enumerate(LAYINGS[k % 4 :] + LAYINGS[: k % 4]):
            label = "servers" if laying in ("servers", "mixed") else "collectives"  # these can't share a start
            place = Place(OWN, WORKERS[number % 2], label=f"optimizers {label}")
            yield parameter(f"optimizer-{name}@{laying}", place, laying in ("horovod", "mixed"))


def parameter(case, place, horovod):
    marks = [pytest.mark.slow, *([pytest.mark.horovod] if horovod else [])]
    where = Path(place.strategy).stem.partition("(")[0]
    return pytest.param(case, place, marks=marks, id=f"{case}-{where}-{place.workers}")


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
