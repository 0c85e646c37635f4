"""A worker that says of its tensors what can't be so ends the other's step, in words, and not its process."""

import os
import subprocess
import sys
from pathlib import Path


def test_shapes_that_no_tensor_has():
    told = subprocess.run(
        [sys.executable, Path(__file__).with_name("hostile.py")],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.endswith("all is as it should be\n")
    assert told.stdout.count("its tensor does not fit, or there is no memory for it") == 4
