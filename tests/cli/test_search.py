"""``autodist search`` as users run it, with real workers; and what reads its store."""

import csv
import io
import json
import re
import shlex
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from autodist.errors import StoreError
from autodist.search import Measurement, Rule, TrialStore, claim, load_study, verdict_of
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
            except (sqlite3.Error, StoreError):
                pass
        time.sleep(0.1)
    raise AssertionError(f"no {count} trials: {process.communicate()}")


def _assert_kept(trials, earlier):
    """The best were measured again at the end; all else is as it was."""
    assert [(t.number, t.strategy, t.origin) for t in trials[: len(earlier)]] == [
        (t.number, t.strategy, t.origin) for t in earlier
    ]
    again = [trial for trial, before in zip(trials, earlier, strict=False) if trial != before]
    assert all(trial.outcome == before.outcome for trial, before in zip(trials, earlier, strict=False))
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len(again) <= 8


@pytest.mark.horovod
def test_a_search_is_interrupted_and_taken_up_again(shell, inside):
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

    [profile] = (shell.directory / "cache" / "profiles").iterdir()
    wanted = max(len(earlier), 13) + 2  # after what users know, which is measured first
    more = ("--trials", str(wanted), "--resume", "--simulator", "linear", "--json")
    with shell.start("search", TRAIN, *QUICK, *more) as process:
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert f"goes on after {len(earlier)} trials" in errors
    assert f"autodist: profile: {profile}\n" in errors, "it is not measured again"
    assert "autodist: without communication: " in errors
    assert not re.search("absl|I0000", errors), "TensorFlow's notes are not news"
    found = json.loads(output)
    assert (found["trials"], found["study"], found["starts"]) == (wanted, study.id, 1)
    with TrialStore(store) as opened:
        trials = opened.trials(study)
        assert len(opened.floor(study)) == 2, "at the beginning, and when it was taken up"
    _assert_kept(trials, earlier)
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    assert len(measured) >= len(earlier) + 2
    best = verdict_of(trials).best
    assert best.again, "who was never measured again is never the best"
    assert found["verdict"]["is_confirmed"]
    assert found["best"]["number"] == best.number
    assert Strategy.load(shell.directory / found["saved"]) == best.strategy
    known = {"PSLoadBalancing", "PartitionedPS", "Parallax(communicator='horovod')"}
    assert {baseline["name"] for baseline in found["baselines"]} >= known

    rows = list(csv.DictReader(io.StringIO(inside("trials", "--csv").stdout)))
    assert [float(row["step_s"]) for row in rows if row["step_s"]] == sorted(trial.step_s for trial in measured)
    stored = load_study(store)
    assert (stored.best_trial, stored.best_strategy, stored.best_value) == (best, best.strategy, best.step_s)
    assert stored.columns()["number"] == [trial.number for trial in trials]
    listed = json.loads(inside("trials", "--json").stdout)
    assert listed["trials"][0]["step_s"] == min(trial.step_s for trial in measured)
    assert Strategy.from_json(inside("best").stdout) == best.strategy
    assert Strategy.from_json(inside("best", "--trial", "0").stdout) == trials[0].strategy
    refused = inside("best", "--trial", "999")
    assert refused.returncode == 2
    assert f"study {study.id} has no trial 999, but {len(trials)} trials" in refused.stderr
    refused = inside("trials", "--study", "9")
    assert refused.returncode == 2
    assert f"has no study 9, allowed: {study.id}" in refused.stderr
    assert "baseline PSLoadBalancing" in inside("trials").stdout
    assert json.loads(inside("trials", "--studies", "--json").stdout)["studies"][0]["trials"] == len(trials)


def finished(shell, *arguments):
    """Output and errors of a search that ends well, which may take longer than other commands."""
    with shell.start("search", *arguments) as process:
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    return output, errors


def test_nothing_is_made_where_there_is_nothing_to_go_on_from(shell):
    for options, said in (
        (["--resume", "--continue"], "`--resume` and `--continue` mean nothing together"),
        (["--resume"], "there is no store `runs/trials.db`, so no search to resume"),
    ):
        refused = shell("search", TRAIN, *QUICK, *options)
        assert refused.returncode == 2
        assert said in refused.stderr
    (shell.directory / "studies.json").write_text("{}")
    refused = shell("trials", "--import", "studies.json", "--store", "new.db")
    assert refused.returncode != 0
    assert "`studies.json` holds no studies" in refused.stderr
    assert [path.name for path in shell.directory.iterdir()] == ["studies.json"]


@pytest.mark.slow
def test_a_search_of_another_graph_or_batch_is_not_taken_up(shell):
    finished(shell, TRAIN, *QUICK, "--trials", "3")
    refused = shell("search", TRAIN, *QUICK, "--resume", "--", "--half")
    assert refused.returncode == 1
    assert "has no search of this graph on this cluster with a batch of 32: those of this graph are" in refused.stderr
    refused = shell("search", TRAIN, *QUICK, "--resume", "--", "--tanh")
    assert refused.returncode == 1
    assert "has no search of this graph on this cluster with a batch of 64: none is of this graph" in refused.stderr
    store = shell.directory / "runs" / "trials.db"
    with claim(store, 1):  # as a search does that runs
        refused = shell("search", TRAIN, *QUICK, "--resume")
        assert refused.returncode == 1
        assert "another search on this machine goes on with study 1 of `runs/trials.db`" in refused.stderr
        _, errors = finished(shell, TRAIN, *QUICK, "--continue", "--trials", "1")
    assert "another search goes on with study 1: this one begins one of its own" in errors
    with TrialStore(store) as opened:
        assert [study.id for study in opened.studies()] == [1, 2]


@pytest.mark.slow
def test_a_search_with_rules_keeps_them(shell):
    quick = (*QUICK, "--trials", "10", "--searcher", "local", "--json")
    output, _ = finished(shell, TRAIN, *quick, "--exclude", "ps", "--", "--of", "mine")
    found = json.loads(output)
    with TrialStore(shell.directory / "runs" / "trials.db") as opened:
        [study] = opened.studies()
        trials = opened.trials(study)
    assert (study.rules, study.label) == ((Rule.exclude("ps"),), "train.py --of mine")
    assert "local" in {trial.origin for trial in trials}

    best = shell("best")
    assert "autodist: the best that obeys --exclude ps; `--any` takes the best of all" in best.stderr
    strategy = Strategy.from_json(best.stdout)
    assert not strategy.has_servers
    assert strategy == Strategy.load(shell.directory / found["saved"])
    assert Strategy.from_json(shell("best", "--any").stdout) == verdict_of(trials).best.strategy
    assert json.loads(shell("trials", "--studies", "--json").stdout)["studies"][0]["rules"] == ["--exclude ps"]

    more = (*quick, "--continue", "--trials", "12")
    _, errors = finished(shell, TRAIN, *more)
    assert "rules of the earlier search: --exclude ps" in errors
    finished(shell, TRAIN, *more, "--trials", "14", "--exclude", "horovod")
    with TrialStore(shell.directory / "runs" / "trials.db") as opened:
        assert [study.rules for study in opened.studies()] == [(Rule.exclude("horovod"),)]


FAILING = """
import numpy as np, tensorflow as tf, autodist

with autodist.scope():
    w = tf.Variable(tf.zeros((8, 3)))

    @autodist.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.linalg.inv(x @ w @ tf.transpose(w) @ tf.transpose(x)))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    step(np.ones((4, 8), "float32"))
"""


@pytest.mark.slow
def test_the_first_of_trials_that_all_fail_can_be_repeated_as_the_hint_says(shell):
    script = shell.write(FAILING)
    arguments = (script.name, "--workers", "1", "--warm-up", "1", "--iterations", "1", "--store", "kept/my trials.db")
    with shell.start("search", *arguments, "--", "--rate", "0.1") as process:
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    said = "the first: InvalidArgumentError: Input is not invertible."
    assert f"error: all 5 trials failed (5 by error); {said}" in errors
    *_, save, again = errors.splitlines()
    listed = json.loads(shell("trials", "--store", "kept/my trials.db", "--json").stdout)["trials"]
    # Prefixes count what a process was asked for, of which the profile may be the first.
    assert re.search(r"\[\[{{node trial_\d/MatrixInverse}}\]\]", listed[0]["message"]), "more than a line is kept"

    assert save.startswith("autodist best --trial 0 --study 1 --store 'kept/my trials.db' --out trial_0.json")
    assert shell(*shlex.split(save)[1:]).returncode == 0
    assert again.startswith("autodist run train.py --workers 1 --seed ")
    assert again.endswith(" --strategy trial_0.json -- --rate 0.1")
    with shell.start(*shlex.split(again)[1:]) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "InvalidArgumentError: Input is not invertible." in errors


@pytest.mark.slow
def test_rules_that_name_nothing(shell):
    with shell.start("search", TRAIN, *QUICK, "--fix", "dens/kernel=ps", "--exclude", "partitions") as process:
        _, errors = process.communicate(timeout=180)
    assert process.returncode == 2
    assert "`--fix dens/kernel=ps`: no variable is called `dens/kernel`" in errors
    assert "`--exclude partitions`: no choice is called `partitions`, near are `partition`" in errors
    assert shell.left() == []


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
        ([TRAIN, "--searcher", "oracle"], "there is no searcher `oracle`, allowed: random, genetic, local"),
        (
            [TRAIN, "--simulator", "oracle"],
            "no simulator `oracle`, allowed: events, analytic, linear, rnn, gat, forest, ensemble, none, a file",
        ),
        ([TRAIN, "--allow", "partition"], "there is no aspect `partition`, allowed: mixed, staleness, compressor"),
        ([TRAIN, "--budget", "soon"], "`soon` is not a time, write it like `90s`, `30m` or `2h`"),
        ([TRAIN, "--fix", "embedding"], "`embedding` pins nothing"),
        ([TRAIN, "--trial-timeout", "-1"], "the longest time of a trial is -1 s, it must be a number above 0"),
        ([TRAIN, "--trials", "0"], "0 is not in the range x>=1"),
        ([TRAIN, "--epochs", "3"], "options of the script follow `--`"),
        ([TRAIN, "--store", "."], "`--store .` is a directory, it must be a file"),
    ],
)
def test_mistakes_are_told_before_anything_starts(shell, inside, arguments, message):
    result = inside("search", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (shell.directory / "runs").exists()


def test_help_lists_the_searchers(inside):
    text = " ".join(inside("search", "--help").stdout.split())
    assert "How to propose strategies: random, genetic, local." in text


def test_stores_that_are_not_there(shell, inside):
    for command in ("trials", "best"):
        result = inside(command, "--store", "none.db")
        assert result.returncode == 2
        assert "there is no trial store `none.db`" in result.stderr
    assert "`--store .` is a directory, it must be a file" in inside("trials", "--store", ".").stderr
    (shell.directory / "broken.db").write_text("no database at all, but longer than a header of one hundred bytes" * 9)
    result = inside("trials", "--store", "broken.db")
    assert result.returncode == 1
    assert "the trial store `broken.db` is damaged" in result.stderr
