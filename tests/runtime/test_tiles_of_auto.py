"""`auto` cuts large weights over the workers where that is faster, and chooses again where a step does not allow it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("tiles_of_auto.py")


def test_weights_are_cut_where_the_step_allows_it(tmp_path):
    hosts = ResourceSpec.local(2).hosts
    spec = ResourceSpec(tuple(replace(host, bandwidth_gbps=0.1) for host in hosts))
    job = Job(SCRIPT, spec, (str(tmp_path),), strategy="auto", run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), "plainly"], check=True, timeout=120)

    expected = np.load(tmp_path / "alone.npz")
    assert min(expected["plain_moved"].min(), expected["combined_moved"].min()) > 1e-4
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=f"{name} on {rank}")
    log = (tmp_path / "run" / "logs" / "0.log").read_text()
    assert "step 0: strategy auto: Tiled, 2 of 2 variables" in log
    assert "what `auto` chose can't be compiled, so it chooses again without tiles" in log
    assert log.count("strategy auto: ") == 2
    assert log.count("strategy auto: Tiled") == 1
