"""Mixed precision: each replica rounds its part of a gradient once, as a device does; the parts are added in float32.

So training equals, as exactly as in float32, that of one device which takes the same parts one after another, and
differs from one that takes whole batches by that rounding alone.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from .precision import POLICIES

STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='horovod')",
    "Parallax(communicator='horovod')",
    str(Path(__file__).with_name("mixed.yml")),
)
pytestmark = [pytest.mark.slow, pytest.mark.horovod, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=[2, 3])
def trained(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("precision")
    script = Path(__file__).with_name("precision.py")
    job = Job(
        script,
        ResourceSpec.local(workers=request.param),
        (str(directory), *STRATEGIES),
        run_dir=directory / "run",
    )
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    subprocess.run([sys.executable, str(script), str(directory), str(request.param)], check=True, timeout=600)
    return {p: {f.stem: dict(np.load(f)) for f in (directory / p).glob("*.npz")} for p in POLICIES}


def difference(found, expected):
    """The largest of all arrays, relative to the largest value of each; names may differ between two models."""
    pairs = zip(found.values(), expected.values(), strict=True)
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in pairs)


@pytest.mark.parametrize("policy", POLICIES)
def test_equals_one_device_that_takes_the_same_parts(trained, policy):
    runs = trained[policy]
    assert difference(runs["parts"], runs["initial"]) > 0.01
    strategies = runs.keys() - {"parts", "whole", "initial"}
    assert strategies == {"PSLoadBalancing", "AllReduce", "Parallax"} | (
        {"mixed"} if policy == "mixed_bfloat16" else set()
    )
    for strategy in strategies:
        assert difference(runs[strategy], runs["parts"]) <= 1e-5, strategy


@pytest.mark.parametrize("policy", POLICIES)
def test_differs_from_whole_batches_by_rounding(trained, policy):
    runs = trained[policy]
    assert 1e-5 < difference(runs["parts"], runs["whole"]) < 0.05
