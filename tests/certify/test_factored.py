"""Sufficient factors are exact: training with them equals training on one device."""

import itertools
from pathlib import Path

import pytest

from autodist.testing import certify

from .runs import QUICK_SERVERS

pytestmark = pytest.mark.timeout(1200)  # the first test of a place runs all cases of that place

SCRIPT = Path(__file__).with_name("factored.py")
CASES = ("fit", "loop", "clipped", "twice", "codes")
WAYS = (("workers", "horovod"), ("workers", "collective"), ("workers", "tcp"), ("server", "horovod"), ("server", "tcp"))
LAYOUTS = ((2, 1), (1, 2), (2, 2), (3, 1))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Where a case's single-device run is kept."""
    directory = tmp_path_factory.mktemp("references")
    return lambda case: directory / case


def parameters():
    for case, way, layout in itertools.product(CASES, WAYS, LAYOUTS):
        marks = [pytest.mark.slow, *([pytest.mark.horovod] if way == ("workers", "horovod") else [])]
        name = f"{case}-{'server' if way[0] == 'server' else way[1]}-{layout[0]}x{layout[1]}"
        yield pytest.param(case, way, layout, marks=marks, id=name)


@pytest.mark.parametrize(("case", "way", "layout"), list(parameters()))
def test_equals_one_device(reference, case, way, layout):
    (to, communicator), (workers, replicas) = way, layout
    arguments = [case, "--to", to, "--communicator", communicator]
    certificate = certify(SCRIPT, arguments, workers=workers, replicas=replicas, steps=4, reference=reference(case))
    assert certificate.num_workers == workers
    certificate.check()


@pytest.mark.parametrize(("case", "place"), [("factored-fit@tcp", QUICK_SERVERS)])
def test_fit_equals_one_device(runs, case, place):
    """In the launch that other cases share."""
    runs.certify(case, place).check()
