"""Hosts with disks of their own: the chief alone has checkpoints, and a host that crashed comes back from them."""

import os
import subprocess

import numpy as np
import pytest

from tests.modules import TESTS, python_path

from .runs import SCRIPTS, assert_same, run

pytestmark = [pytest.mark.emulated, pytest.mark.slow]

HOSTS = ("h1", "h2", "h3", "h4")


def test_workers_that_do_not_see_the_files(emulate, tmp_path):
    strategy = "PSLoadBalancing"
    _, expected = run("loop.py", tmp_path / "here", strategy=strategy, workers=len(HOSTS), seed=11)
    cluster = emulate(len(HOSTS))
    for host in HOSTS:
        (cluster.disk(host) / "root" / "out").mkdir(parents=True)
    (cluster.disk("head") / "root" / "cluster.yml").write_text(f"nodes: [{{address: 'h[1-{len(HOSTS)}]'}}]\n")
    modules = python_path(TESTS, TESTS.parent)
    command = ["autodist", "run", str(SCRIPTS / "loop.py"), "--spec", "cluster.yml", "--seed", "11"]
    command += ["--strategy", strategy, "--max-restarts", "2", "--env", f"PYTHONPATH={modules}"]
    command += ["--", "/root/out", "--checkpoints", "/root/checkpoints", "--kill", "0:3:5", "1:0:10"]
    result = subprocess.run(cluster.command("head", command), capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "restart 1 of 2 in 1 s: training goes on after step 3" in result.stderr
    assert "restart 2 of 2 in 2 s: training goes on after step 9" in result.stderr
    found = [dict(np.load(cluster.disk(h) / "root" / "out" / f"{rank}.npz")) for rank, h in enumerate(HOSTS)]
    assert_same(found, expected)
    have = [h for h in HOSTS if os.path.isdir(cluster.disk(h) / "root" / "checkpoints")]
    assert have == ["h1"]
