"""A search on several machines, launched over SSH: what is measured there, and what comes back."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from autodist.search import TrialStore

pytestmark = [pytest.mark.slow, pytest.mark.emulated, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
TRAIN = Path(__file__).with_name("train.py")


def test_a_search_on_two_machines(emulate, tmp_path):
    cluster = emulate(2, "1gbit", rates={"h2": "200mbit"})
    command = [sys.executable, "-m", "autodist", "search", str(TRAIN), "-H", "h1,h2", "--store", "/root/trials.db"]
    options = ["--trials", "8", "--warm-up", "2", "--iterations", "5", "--seed", "1", "--out", "/root/best.json"]
    done = cluster.run("head", [*command, *options, "--json", "--env", f"PYTHONPATH={ROOT}"], timeout_s=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "profile: measured" in done.stderr
    found = json.loads(done.stdout)
    disk = cluster.disk("head") / "root"
    assert (disk / "best.json").is_file()
    with TrialStore(shutil.copy(disk / "trials.db", tmp_path)) as store:
        [study] = store.studies()
        trials = store.trials(study)
    assert len(trials) == found["trials"] == 8
    assert found["starts"] == 1
    assert [host["name"] for host in json.loads(study.spec)["hosts"]] == ["h1", "h2"]
    assert sum(trial.step_s is not None for trial in trials) >= 7
