"""A worker without replica, under `autodist run`."""

from pathlib import Path

from autodist.testing import certify

SCRIPT = Path(__file__).with_name("serving_only.py")


def test_equals_one_device():
    certificate = certify(SCRIPT, workers=2, replicas=2, steps=6).check()
    assert certificate.num_workers == 2
