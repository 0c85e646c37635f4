"""Wait-free back-propagation: gradients of late layers leave while those of early layers are still being computed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("overlapping.py")
COMPUTING = re.compile(r"gradient_tape")
SENDING = re.compile(r"push_gradient|all_reduce/group_\d+/layer_\d+/float32$")
"""Names of ops that send gradients, not of the keys that they take. A push begins when the gradient has arrived."""

pytestmark = pytest.mark.slow


def traces(strategy, directory, *, overlap):
    """By step of the second worker: when each op of the backward pass ran, and when each gradient was sent."""
    command = [sys.executable, "-m", "autodist", "run", str(SCRIPT), "--workers", "2", "--strategy", strategy]
    environment = os.environ | {"AUTODIST_OVERLAP": str(int(overlap))}
    done = subprocess.run(
        [*command, "--", str(directory)], cwd=directory, env=environment, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads((directory / "1.json").read_text())
    return [(spans(times, COMPUTING), spans(times, SENDING)) for times in steps]


def spans(times, names):
    """Start and end of the ops with such names."""
    found = [span for name, span in times.items() if names.search(name)]
    assert len(found) >= 5, sorted(times)
    return found


def first(spans):
    return min(start for start, _ in spans)


def last(spans):
    """When the last op begins: some more milliseconds of computing lie behind."""
    return max(start for start, _ in spans)


STRATEGIES = [
    "PSLoadBalancing(communicator='tcp')",
    pytest.param("AllReduce(chunk_size=1, communicator='horovod')", marks=pytest.mark.horovod),
    "AllReduce(chunk_size=1, communicator='collective')",
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gradients_leave_before_the_backward_pass_ends(strategy, tmp_path):
    # Of several steps, because a busy machine may not let it happen in each.
    steps = traces(strategy, tmp_path, overlap=True)
    assert any(first(sent) < last(backward) for backward, sent in steps)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_overlap_they_leave_afterwards(strategy, tmp_path):
    steps = traces(strategy, tmp_path, overlap=False)
    assert all(first(sent) >= last(backward) for backward, sent in steps)
