"""A carrier and a synchronizer that another package brings do all that ours do, without a line of ours for them."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import train_another

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Two workers that train; the first then asks."""
    folder = tmp_path_factory.mktemp("another")
    path = os.pathsep.join(filter(None, (str(HERE / "another"), os.environ.get("PYTHONPATH"))))
    command = [
        *(sys.executable, "-m", "autodist", "run", str(HERE / "train_another.py"), "--workers", "2"),
        *("--strategy", "Wide", "--", f"{folder}/"),
    ]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": path}
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_two_workers_train_as_one_device_does(ran):
    expected = train_another.train(contextlib.nullcontext)
    for rank in range(2):
        found = dict(np.load(ran / f"{rank}.npz"))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=f"{name} on rank {rank}")
    assert np.abs(expected["momentum"]).max() > 1e-3


@pytest.fixture(scope="module")
def asked(ran):
    return json.loads((ran / "asked.json").read_text())


def test_it_is_explained(asked):
    assert asked["survives"]
    one, other = asked["rows"]
    assert (one["synchronizer"], one["where"], one["communicator"]) == ("WideSum", "every worker", "sockets")
    # Three other hosts get 1000 x 250 floats of 64 bits, of which the carrier sends every one to each.
    assert set(other["sent_bytes"].values()) == {3 * 1000 * 250 * 8.0}


def test_it_is_verified(asked):
    assert asked["problems"] == []
    assert asked["sparse"] == ["`w`: synchronizer is 'WideSum', allowed: 'AllReduce' (its gradient is sparse)"]


def test_it_is_searched(asked):
    assert "sockets" in asked["installed"]
    assert asked["obeyed"] == ["sockets"]
    assert asked["predicted_s"] > 0
    best, recognized = map(json.loads, asked["found"])
    assert {shard["synchronizer"]["type"] for v in best["variables"][:1] for shard in v["shards"]} == {"WideSum"}
    assert best["graph"]["communicator"] == "sockets"
    assert best["variables"] == recognized["variables"]
