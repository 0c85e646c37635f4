"""Partitioned variables train as whole ones do: weights, slots and outputs equal those of one device."""

import pytest

from .pairs import covering
from .partitioned import LAYINGS, MODELS, OPTIMIZERS
from .runs import OWN, QUICK_COLLECTIVES, QUICK_SERVERS, Place

pytestmark = pytest.mark.timeout(1800)  # the first test of a place runs all cases of that place

QUICK = (
    ("servers", "tied", "momentum"),
    ("mixed", "lookup", "v1_adam"),
    ("mixed", "dense", "raw"),
    ("collective", "positions", "adam"),
    ("horovod", "embedding", "v1_adagrad"),
)
"""Every laying and model, in the launches that other cases share; every optimizer is in test_optimizers.py."""
LAYOUTS = ((2, 1), (2, 2), (3, 1), (1, 2))
FACTORS = {"laying": LAYINGS, "model": MODELS, "optimizer": tuple(OPTIMIZERS), "layout": LAYOUTS}


def parameters():
    quick = [(*case, (2, 1)) for case in QUICK]
    rows = [tuple(row.values()) for row in covering(FACTORS)]
    for laying, model, optimizer, layout in dict.fromkeys([*quick, *rows]):
        is_quick = (laying, model, optimizer, layout) in quick
        marks = [] if is_quick else [pytest.mark.slow]
        marks += [pytest.mark.horovod] if laying in ("horovod", "mixed") else []
        with_servers = laying in ("servers", "mixed")  # these can't share a start with others
        place = Place(OWN, *layout, label=f"partitioned {'servers' if with_servers else 'collectives'}")
        if is_quick:
            place = QUICK_SERVERS if with_servers else QUICK_COLLECTIVES
        yield pytest.param(f"partitioned-{laying}-{model}-{optimizer}", place, marks=marks)


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
