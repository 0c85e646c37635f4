"""Workers that have parts of all weights clip, accumulate and average as one device does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from .alone import ran_alone

SCRIPT = Path(__file__).with_name("tiles_of_updates.py")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one device makes of it."""
    found = ran_alone(SCRIPT, tmp_path_factory.mktemp("alone"))
    assert found["moved"] > 3e-4
    return found


@pytest.mark.slow  # in one process: tests/kernels/test_tiled_updates.py
@pytest.mark.parametrize(
    ("workers", "strategy", "memory_gb"),
    [
        (2, "Tiled(dims=('*/kernel=1', '*/bias=0'))", None),
        (3, "Tiled(dims=('*/kernel=0',))", None),
        (4, "Tiled(dims=('*/kernel=1', '*/bias=0'), groups=2)", None),
        (2, "Tiled(dims=('*/kernel=1', '*/bias=0'))", 1.0),
    ],
    ids=["columns", "rows", "groups", "in turn"],
)
def test_workers_update_their_parts_as_one_device_does(tmp_path, alone, workers, strategy, memory_gb):
    hosts = ResourceSpec.local(workers).hosts
    spec = ResourceSpec(tuple(replace(host, memory_gb=memory_gb) for host in hosts))
    job = Job(SCRIPT, spec, (str(tmp_path),), strategy=strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    for rank in range(workers):
        found = np.load(tmp_path / f"{rank}.npz")
        assert set(found.files) == set(alone.files)
        for name in alone.files:
            bound = 1e-5 * max(1e-2, np.abs(alone[name]).max())
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-5, atol=bound, err_msg=f"{name} on {rank}")
    assert "no variable can be cut" not in (tmp_path / "run" / "logs" / "0.log").read_text()
