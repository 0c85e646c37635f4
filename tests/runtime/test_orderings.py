"""Updates don't overtake the reads that come before them, which plain TensorFlow 2.21 does not warrant."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("times", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_every_tracing_gives_the_same_losses(times):
    command = [sys.executable, str(TESTS / "runtime" / "adversarial.py"), "ours", str(times)]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["1"]
