"""Partitioned variables train as whole ones do: weights, slots and outputs equal those of one device."""

import pytest

from .pairs import covering
from .partitioned import LAYINGS, MODELS, OPTIMIZERS
from .runs import OWN, Place

pytestmark = pytest.mark.timeout(1800)  # the first test of a place runs all cases of that place

QUICK = (
    ("servers", "dense", "adam"),
    ("servers", "embedding", "momentum"),
    ("servers", "tied", "sgd"),
    ("mixed", "lookup", "v1_adam"),
    ("mixed", "embedding", "adam"),
    ("mixed", "dense", "raw"),
    ("collective", "dense", "momentum"),
    ("collective", "lookup", "adam"),
    ("collective", "positions", "adam"),
    ("servers", "positions", "v1_adagrad"),
    ("horovod", "embedding", "v1_adagrad"),
    ("horovod", "lookup", "adamw"),
)
LAYOUTS = ((2, 1), (2, 2), (3, 1), (1, 2))
FACTORS = {"laying": LAYINGS, "model": MODELS, "optimizer": tuple(OPTIMIZERS), "layout": LAYOUTS}


def parameters():
    quick = [(*case, (2, 1)) for case in QUICK]
    rows = [tuple(row.values()) for row in covering(FACTORS)]
    for laying, model, optimizer, layout in dict.fromkeys([*quick, *rows]):
        marks = [pytest.mark.slow] if (laying, model, optimizer, layout) not in quick else []
        marks += [pytest.mark.horovod] if laying in ("horovod", "mixed") else []
        label = "servers" if laying in ("servers", "mixed") else "collectives"  # these can't share a start
        place = Place(OWN, *layout, label=f"partitioned {label}")
        yield pytest.param(f"partitioned-{laying}-{model}-{optimizer}", place, marks=marks)


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
