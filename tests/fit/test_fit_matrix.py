"""`fit`, `evaluate` and `predict` on several workers give what plain Keras gives on one device, on every worker."""

import numpy as np
import pytest

from .cases import CASES
from .places import parameters
from .runs import Place, assert_same

pytestmark = pytest.mark.timeout(3000)  # the first test of a place runs all cases of that place

QUICK = ("own_steps",)


@pytest.mark.parametrize(("case", "place"), list(parameters(CASES, QUICK)))
def test_equals_one_device(runs, case, place):
    (expected,) = runs.found(case, Place())
    for found in runs.found(case, place):
        assert assert_same(expected, found) > 6
    slots = [value for name, value in expected["weights"].items() if "momentum" in name]
    assert slots
    assert all(np.any(value) for value in slots), "the weights moved"
