"""Any strategy over any model and cluster is either refused by `verify`, or runs and equals one device.

Long runs find the holes: `AUTODIST_TESTS_DRAWN=500 pytest -m slow tests/certify/test_drawn.py` draws as many.
"""

import os

import pytest

from .runs import OWN, QUICK_COLLECTIVES, Place

pytestmark = [pytest.mark.timeout(3600), pytest.mark.horovod]  # the first test of a place runs all cases of that place

SHAPES = ((2, 1, 0), (2, 2, 0), (2, 1, 1), (3, 1, 0), (1, 3, 0))
"""Workers, replicas of each, and how many more the last one has."""

MANY = int(os.environ.get("AUTODIST_TESTS_DRAWN", "100"))
QUICK = {"drawn-collectives-999": QUICK_COLLECTIVES}
"""Which cases every run of the tests draws, in a launch that other cases share."""


def parameters():
    for number in range(MANY):
        family, shape = ("servers", "servers", "collectives")[number % 3], SHAPES[number // 3 % len(SHAPES)]
        yield pytest.param(f"drawn-{family}-{number}", Place(OWN, *shape, label=family), marks=pytest.mark.slow)
    for case, place in QUICK.items():
        yield pytest.param(case, place)


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    runs.certify(case, place).check()
