"""``autodist simulator``, and trials that travel, as users run them."""

import json
import re
import shutil

import pytest

from autodist.cli import main
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import TrialStore
from autodist.simulator import ForestSimulator, load_simulator
from tests.report.stores import add_search

ALIKE = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abc"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A directory with trials of one graph on two clusters."""
    directory = tmp_path_factory.mktemp("searched")
    with TrialStore(directory / "runs" / "trials.db") as opened:
        add_search(opened, seed=1, trials=24)
        add_search(opened, seed=2, spec=ALIKE, trials=24)
    return directory


@pytest.fixture
def store(searched, tmp_path, monkeypatch):
    """A working directory with a copy of these."""
    shutil.copytree(searched, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_how_good_simulators_are(store, capsys):
    chosen = ["--simulator", "events:fixed", "--simulator", "linear", "--simulator", "forest"]
    assert main(["simulator", "eval", "--folds", "2", *chosen, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["split"], row["simulator"]) for row in rows[:3]] == [
        ("trials", "events:fixed"), ("trials", "linear"), ("trials", "forest"),
    ]  # fmt: skip
    assert {row["split"] for row in rows} == {"trials", "cluster"}, "there is only one graph"
    assert all(0 <= row["pairwise"] <= 1 and row["regret"] >= 0 for row in rows)
    exact = [row["pairwise"] for row in rows if row["simulator"] == "events:fixed"]
    assert min(exact) > 0.9, "the times are those of the event simulation"


def test_a_table_with_the_mean_of_each(store, capsys):
    assert main(["simulator", "eval", "--split", "cluster", "--simulator", "events:fixed"]) == 0
    shown = capsys.readouterr().out
    assert "an unseen cluster" in shown
    assert len(re.findall(r"^train.* events:fixed ", shown, re.MULTILINE)) == 2
    assert len(re.findall(r"^mean .* events:fixed ", shown, re.MULTILINE)) == 1


def test_what_was_learned_is_kept_and_goes_on(store, capsys):
    assert main(["simulator", "fit", "--out", "forest.npz"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "saved forest.npz\n"
    assert "learned from" in shown.err
    assert "of 1 graph on 2 clusters" in shown.err
    first = load_simulator("forest.npz")
    assert isinstance(first, ForestSimulator)
    assert main(["simulator", "fit", "--from", "forest.npz", "--out", "more.npz"]) == 0
    assert len(load_simulator("more.npz").learned["rows"]) == 2 * len(first.learned["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "--simulator", "oracle", "--simulator", "seer"], "there is no simulator `oracle`, `seer`, allowed: "),
        (["eval", "--split", "weather"], "there is no split `weather`, allowed: trials, cluster, graph"),
        (["eval", "--folds", "30"], "has no graph on a cluster of which 60 strategies are measured"),
        (["eval", "--store", "none.db"], "there is no trial store `none.db`"),
        (
            ["fit", "--simulator", "events"],
            "there is no simulator that learns `events`, allowed: linear, rnn, gat, forest, ensemble",
        ),
        (["fit", "--from", "runs/trials.db"], "`runs/trials.db` is not a file of a simulator"),
        (["fit", "--out", "runs/trials.db/f"], "the file's name must end in `.npz`"),
        (["fit", "--out", "runs/trials.db/f"], "trials.db` is not a directory"),
        (["eval", "--split", "graph"], "has trials of one graph only"),
        (["eval", "--from", "1"], "`--from` needs `--to`"),
        (["eval", "--to", "1"], "`--to` needs `--from`"),
        (["eval", "--from", "1", "--to", "2", "--split", "graph"], "`--split` says what is held out, and so do"),
        (["eval", "--from", "1", "--to", "2", "--to", "1"], "`1` is both learned from and ranked"),
        (["eval", "--from", "1", "--to", "7"], "has no study 7, allowed: 1, 2"),
        (["eval", "--simulator", "seer", "--split", "weather"], "there is no split `weather`"),
    ],
)
def test_mistakes_are_told(arguments, message, store, capsys):
    assert main(["simulator", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_is_learned_from_and_what_is_ranked_may_be_said(store, capsys):
    chosen = ["--simulator", "events:fixed", "--simulator", "linear", "--json"]
    assert main(["trials", "--export", "second.zip", "--study", "2"]) == 0
    capsys.readouterr()
    assert main(["simulator", "eval", "--from", "1", "--to", "second.zip", *chosen]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["split"], row["simulator"]) for row in rows] == [("given", "events:fixed"), ("given", "linear")]
    assert rows[0]["pairwise"] > 0.9
    assert main(["simulator", "eval", "--split", "cluster", *chosen]) == 0
    unseen = json.loads(capsys.readouterr().out)["rows"]
    assert rows[1]["pairwise"] in [row["pairwise"] for row in unseen if row["simulator"] == "linear"]


def test_where_no_pair_is_left_json_says_null(store, capsys):
    chosen = ["--split", "trials", "--simulator", "linear", "--json"]
    assert main(["simulator", "eval", "--gap", "1000", *chosen]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["rows"]
    assert {row["pairwise"] for row in rows} == {None}
    assert {row["error"] for row in rows} == {None}, "scores are no seconds"


def test_a_file_says_by_itself_what_it_is(store, capsys):
    assert main(["simulator", "fit", "--out", "new/forest.npz"]) == 0
    assert main(["simulator", "fit", "--from", "new/forest.npz", "--simulator", "linear"]) == 2
    assert "is a simulator `forest`, not `linear`" in capsys.readouterr().err


def test_trials_travel(store, capsys):
    assert main(["trials", "--export", "both.zip"]) == 0
    assert main(["trials", "--export", "second.zip", "--study", "2"]) == 0
    assert capsys.readouterr().out == "saved 2 searches in both.zip\nsaved 1 search in second.zip\n"
    assert main(["trials", "--store", "other.db", "--import", "both.zip", "--import", "second.zip"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["trials", "--store", "other.db", "--import", "runs/trials.db"]) == 0
    with TrialStore("runs/trials.db") as mine, TrialStore("other.db") as theirs:
        assert [theirs.trials(study) for study in theirs.studies()] == [mine.trials(s) for s in mine.studies()]


def test_what_can_not_travel_is_told(store, capsys):
    (store / "notes.zip").write_text("none")
    assert main(["trials", "--import", "notes.zip"]) == 1
    assert "`notes.zip` holds no studies" in capsys.readouterr().err
    assert main(["trials", "--import", "runs/../runs/trials.db"]) == 2
    assert "`runs/../runs/trials.db` is the store itself" in capsys.readouterr().err
    assert main(["trials", "--import", "nowhere.zip"]) == 2
    assert "there is no file `nowhere.zip`" in capsys.readouterr().err
