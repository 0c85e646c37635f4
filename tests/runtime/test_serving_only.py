"""A worker without replica, under `autodist run`."""

from pathlib import Path

import pytest

from autodist.testing import certify

SCRIPT = Path(__file__).with_name("serving_only.py")


@pytest.mark.slow  # tests/kernels/test_placement.py has hosts that only serve, in one process
def test_equals_one_device():
    certificate = certify(SCRIPT, workers=2, replicas=2, steps=6).check()
    assert certificate.num_workers == 2
