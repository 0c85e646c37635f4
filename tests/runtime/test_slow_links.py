"""Over links that the spec calls slow, AutoDist's own library sends an eighth less, and the same numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("slow_links.py")


def trained(directory, strategy, bandwidth_gbps):
    """By worker, what it has sent per step, and its weights afterwards."""
    directory.mkdir()
    hosts = ResourceSpec.local(workers=2).hosts
    spec = ResourceSpec(tuple(replace(host, bandwidth_gbps=bandwidth_gbps) for host in hosts))
    result = LocalLauncher().launch(Job(SCRIPT, spec, (str(directory), strategy), run_dir=directory / "run"))
    assert result.exit_code == 0, result.failure
    return [np.load(directory / f"{rank}.npz") for rank in range(2)]


@pytest.mark.slow  # tests/transport has what is sent and how it is coded, without training
@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["AllReduce(communicator='tcp')", "PSLoadBalancing(communicator='tcp')"])
def test_an_eighth_less_is_sent_and_nothing_is_lost(tmp_path, strategy):
    fast, slow = (trained(tmp_path / name, strategy, gbps) for name, gbps in (("fast", 1.0), ("slow", 0.5)))
    for one, other in zip(fast, slow, strict=True):
        assert (one["moved"] > 1e-4).all()
        for name in ("table", "kernel"):
            np.testing.assert_allclose(other[name], one[name], rtol=1e-6, atol=1e-7)
    sent = [sum(float(worker["sent"]) for worker in workers) for workers in (slow, fast)]
    assert sent[0] / sent[1] == pytest.approx(7 / 8, abs=0.02)
