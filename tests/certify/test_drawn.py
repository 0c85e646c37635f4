"""Any strategy over any model and cluster is refused in words, or runs and equals one device.

All programs of a cluster and a family are trained one after another by the same workers, each in a scope of its own.
Long runs find the holes: `AUTODIST_TESTS_DRAWN=2000 pytest -m slow tests/certify/test_drawn.py` draws as many. What
became of them is written into the file that `AUTODIST_TESTS_DRAWN_COUNTS` names.
"""

import collections
import json
import os
import pathlib

import pytest

from .runs import OWN, QUICK_COLLECTIVES, QUICK_SERVERS, Place

pytestmark = [pytest.mark.timeout(7200), pytest.mark.horovod]  # the first test of a place runs all cases of that place

SHAPES = ((2, 1, 0), (2, 2, 0), (2, 1, 1), (3, 1, 0), (1, 3, 0))
"""Workers, replicas of each, and how many more the last one has."""

MANY = int(os.environ.get("AUTODIST_TESTS_DRAWN", "500"))
QUICK = {
    **dict.fromkeys(("drawn-collectives-999", "drawn-collectives-62", "drawn-collectives-32"), QUICK_COLLECTIVES),
    "drawn-servers-31": QUICK_SERVERS,
}
"""Which cases every run of the tests draws, in a launch that other cases share."""

ROUND_OFF = 1e-11
"""Of numbers that are but round-off: weights that change nothing, such as a bias before a mean is taken off. Of their
gradients, 1e-17 each, Adam makes steps that are 1e7 times as large, since it divides by 1e-7 at least."""

MOST_REFUSED = 0.05
"""Of all programs."""


def parameters():
    for number in range(MANY):
        family, shape = ("servers", "servers", "collectives")[number % 3], SHAPES[number // 3 % len(SHAPES)]
        yield pytest.param(f"drawn-{family}-{number}", Place(OWN, *shape, label=family), marks=pytest.mark.slow)
    for case, place in QUICK.items():
        yield pytest.param(case, place)


@pytest.fixture(scope="module")
def outcomes():
    """By case "equal", "different", or the words of a refusal."""
    found = {}
    yield found
    counts = collections.Counter(o if o in ("equal", "different") else "refused" for o in found.values())
    if os.environ.get("AUTODIST_TESTS_DRAWN_COUNTS"):
        pathlib.Path(os.environ["AUTODIST_TESTS_DRAWN_COUNTS"]).write_text(json.dumps([counts, found], indent=1))
    assert counts["refused"] <= MOST_REFUSED * max(20, len(found)), found


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device_or_is_refused(runs, outcomes, case, place):
    outcomes[case] = runs.refusal(case, place) or "different"
    if runs.refusal(case, place) is None:
        certificate = runs.certify(case, place)
        differing = [d for d in certificate.differences if d.relative > certificate.tolerance]
        assert [d for d in differing if d.absolute > ROUND_OFF] == []
        assert certificate.moved > 0
        outcomes[case] = "equal"
