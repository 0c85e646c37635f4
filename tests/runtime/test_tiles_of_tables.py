"""`auto` cuts a table of words over the workers, and the classes that they are; all is as on one device."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autodist.graph.layouts import Exchanged
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("tiles_of_tables.py")


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_words_stay_where_their_rows_are(tmp_path, workers):
    hosts = ResourceSpec.local(workers).hosts
    spec = ResourceSpec(tuple(replace(host, bandwidth_gbps=0.1) for host in hosts))
    job = Job(SCRIPT, spec, (str(tmp_path),), strategy="auto", run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    alone = {name: value for name, value in os.environ.items() if name != "RANK"}
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True, timeout=120, env=alone)

    expected = np.load(tmp_path / "alone.npz")
    assert expected["moved"] > 1e-2
    for rank in range(workers):
        found = np.load(tmp_path / f"{rank}.npz")
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=f"{name} on {rank}")
    assert "strategy auto: Tiled" in (tmp_path / "run" / "logs" / "0.log").read_text()
    sent = [one for path in (tmp_path / "run").rglob("*exchanged*.json") for one in Exchanged.load(path)]
    assert sent
    assert max(one.size_bytes for one in sent) < 8 * 4 * 12_000 * 4, sent  # the logits
