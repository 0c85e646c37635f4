"""``autodist search`` as users run it, with real workers; and what reads its store."""

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from autodist.search import Measurement, TrialStore
from autodist.strategies import Strategy

TRAIN = str(Path(__file__).parents[1] / "tuning" / "train.py")
QUICK = ("--workers", "2", "--warm-up", "2", "--iterations", "3", "--seed", "1")


def wait_for_trials(path, count, process, timeout_s=120.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists():
            try:
                with TrialStore(path) as store:
                    if store.studies() and len(store.trials(store.studies()[-1])) >= count:
                        return
            except sqlite3.Error:
                pass
        time.sleep(0.1)
    raise AssertionError(f"no {count} trials: {process.communicate()}")


@pytest.mark.horovod
def test_a_search_is_interrupted_and_taken_up_again(shell):
    store = shell.directory / "runs" / "trials.db"
    with shell.start("search", TRAIN, *QUICK, "--trials", "500") as process:
        wait_for_trials(store, 3, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: the search was interrupted\n" in errors
    assert "trials are in `runs/trials.db`; `--resume` goes on from there" in errors
    assert shell.left() == []
    with TrialStore(store) as opened:
        [study] = opened.studies()
        earlier = opened.trials(study)

    more = ("--trials", str(max(len(earlier), 13) + 4), "--resume", "--simulator", "linear", "--json")
    with shell.start("search", TRAIN, *QUICK, *more) as process:
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert f"goes on after {len(earlier)} trials" in errors
    assert "absl" not in errors, "TensorFlow's account of the CPU is no news"
    found = json.loads(output)
    assert (found["trials"], found["study"], found["starts"]) == (max(len(earlier), 13) + 4, study.id, 1)
    with TrialStore(store) as opened:
        trials = opened.trials(study)
    assert trials[: len(earlier)] == earlier
    assert [trial.number for trial in trials] == list(range(len(trials)))
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    assert len(measured) >= len(earlier) + 3
    best = min(measured, key=lambda trial: trial.step_s)
    assert found["best"]["number"] == best.number
    assert Strategy.load(shell.directory / found["saved"]) == best.strategy
    assert {baseline["name"] for baseline in found["baselines"]} >= {"PSLoadBalancing", "PartitionedPS", "Parallax"}

    listed = json.loads(shell("trials", "--json").stdout)
    assert listed["trials"][0]["number"] == best.number
    assert Strategy.from_json(shell("best").stdout) == best.strategy
    assert Strategy.from_json(shell("best", "--trial", "0").stdout) == trials[0].strategy
    refused = shell("best", "--trial", "999")
    assert refused.returncode == 2
    assert f"study {study.id} has no trial 999, but {len(trials)} trials" in refused.stderr
    refused = shell("trials", "--study", "9")
    assert refused.returncode == 2
    assert f"has no study 9, allowed: {study.id}" in refused.stderr
    assert "baseline PSLoadBalancing" in shell("trials").stdout
    assert json.loads(shell("trials", "--studies", "--json").stdout)["studies"][0]["trials"] == len(trials)


@pytest.mark.slow
def test_rules_that_leave_nothing(shell):
    result = shell("search", TRAIN, *QUICK, "--fix", "*=ps", "--exclude", "ps")
    assert result.returncode == 3
    assert "--fix *=ps" in result.stderr
    assert "--exclude ps" in result.stderr
    assert shell.left() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "the script `nowhere.py` does not exist"),
        ([TRAIN, "--searcher", "oracle"], "there is no searcher `oracle`, allowed: random, genetic"),
        ([TRAIN, "--simulator", "oracle"], "no simulator `oracle`, allowed: events, analytic, linear, rnn, none"),
        ([TRAIN, "--allow", "partition"], "there is no aspect `partition`, allowed: staleness, compressor"),
        ([TRAIN, "--budget", "soon"], "`soon` is no time, write it like `90s`, `30m` or `2h`"),
        ([TRAIN, "--fix", "embedding"], "`embedding` pins nothing"),
        ([TRAIN, "--trial-timeout", "-1"], "the longest time of a trial is -1 s, it must be a number above 0"),
        ([TRAIN, "--trials", "0"], "0 is not in the range x>=1"),
        ([TRAIN, "--epochs", "3"], "options of the script stand after `--`"),
    ],
)
def test_mistakes_are_told_before_anything_starts(shell, arguments, message):
    result = shell("search", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (shell.directory / "runs").exists()


def test_stores_that_are_not_there(shell):
    for command in ("trials", "best"):
        result = shell(command, "--store", "none.db")
        assert result.returncode == 2
        assert "there is no trial store `none.db`" in result.stderr
    (shell.directory / "broken.db").write_text("no database at all, but longer than a header of one hundred bytes" * 9)
    result = shell("trials", "--store", "broken.db")
    assert result.returncode == 1
    assert "the trial store `broken.db` is damaged" in result.stderr
