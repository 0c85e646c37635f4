"""The trial store: nothing that was added is lost, and what can't be used is told."""

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from autodist.errors import StoreError
from autodist.resource_spec import ResourceSpec
from autodist.search import Failure, Measurement, Rule, Trial, TrialStore, claim
from autodist.simulator import Profile
from autodist.strategies import AllReduceSynchronizer, GraphConfig, Strategy, VariableConfig

PROFILE = Profile(0.2, {"w": 0.0}, {"w": 0.2}, 32, "measured", processor_s=0.3)
SPEC = ResourceSpec.local(workers=2, cpus=1)
STRATEGY = Strategy(
    GraphConfig(("localhost:CPU:0",), "tcp"), (VariableConfig.whole("w", AllReduceSynchronizer(0)),), builder="me"
)
TRIALS = [
    Trial(0, STRATEGY, Measurement((0.1, 0.3, 0.2), 10, 0.7), "random", 0.15),
    Trial(1, STRATEGY, Failure("memory", "out of memory"), "genetic"),
]


def begun(store):
    return store.study(b"graph", "f1", SPEC, 64, "train.py")


def test_trials_come_back_as_they_were_stored(tmp_path):
    path = tmp_path / "deep" / "trials.db"
    with TrialStore(path) as store:
        study = begun(store)
        for trial in TRIALS:
            store.add(study, trial)
    with TrialStore(path) as store:
        [found] = store.studies()
        assert (found, store.trials(found), store.graph(found)) == (study, TRIALS, b"graph")
        assert found.batch_size == 64
        assert ResourceSpec.from_json(found.spec) == SPEC
        assert [trial.step_s for trial in TRIALS] == [0.2, None]


def test_some_trials_are_read_and_their_times_without_reading_any(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        study = begun(store)
        store.add(study, *TRIALS, dataclasses.replace(TRIALS[0], number=2))
        assert [trial.number for trial in store.trials(study, [1, 2, 7])] == [1, 2]
        assert store.trials(study, []) == []
        size = len(STRATEGY.to_json())
        assert [(one.study, one.number, one.step_s, one.size) for one in store.measured(study)] == [
            (study, 0, 0.2, size),
            (study, 2, 0.2, size),
        ]


def test_a_trial_that_is_repeated_replaces_the_first(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        study = begun(store)
        store.add(study, Trial(0, STRATEGY, Failure("timeout", "too slow"), "random"))
        store.add(study, TRIALS[0])
        assert store.trials(study) == TRIALS[:1]


def test_graphs_are_stored_once(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        begun(store), begun(store)
        assert len(store.studies()) == 2
        assert store._connection.execute("SELECT count(*) FROM graphs").fetchone() == (1,)


WRITER = """
import sys
from tests.search.test_store import *
with TrialStore(sys.argv[1]) as store:
    study = begun(store)
    for number in range(100_000):
        store.add(study, Trial(number, STRATEGY, Measurement((float(number),)), "random"))
        print(number, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_had_added(tmp_path):
    path = tmp_path / "trials.db"
    for pause_s in (0.0, 0.05, 0.13):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            while int(writer.stdout.readline()) < 20:
                pass
            time.sleep(pause_s)
            writer.send_signal(signal.SIGKILL)
            *_, last = writer.stdout.read().splitlines() or ["20"]
        with TrialStore(path) as store:
            trials = store.trials(store.studies()[-1])
            assert len(trials) >= int(last) + 1
            assert all(trial.step_s == trial.number for trial in trials)


def test_one_reads_while_another_writes(tmp_path):
    path = tmp_path / "trials.db"
    with TrialStore(path) as writer, TrialStore(path) as reader:
        study = begun(writer)
        with writer._transaction():
            assert reader.trials(study) == []
        writer.add(study, TRIALS[0])
        assert reader.trials(study) == TRIALS[:1]


def test_a_store_that_stays_locked_is_told(tmp_path, monkeypatch):
    path = tmp_path / "trials.db"
    monkeypatch.setattr("autodist.search.store._store._WAIT_S", 0.1)
    with TrialStore(path) as one, TrialStore(path) as other:
        study = begun(one)
        with (
            one._transaction(),
            pytest.raises(StoreError, match=r"trials\.db` can't be used: database is locked") as caught,
        ):
            other.add(study, TRIALS[0])
        assert "end that one" in caught.value.hint
        other.add(study, TRIALS[0])


def test_what_is_no_store_is_left_as_it_is(tmp_path):
    path = tmp_path / "text"
    path.write_text("something else, " * 1000)
    with pytest.raises(StoreError, match="is damaged: file is not a database"):
        TrialStore(path)
    assert path.read_text().startswith("something else")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(StoreError, match="is no trial store"):
        TrialStore(other)
    assert other.read_bytes() == before, "its journal, too, is as it was"


def test_a_damaged_store_is_told(tmp_path):
    path = tmp_path / "trials.db"
    with TrialStore(path) as store:
        study = begun(store)
        for number in range(300):
            store.add(study, Trial(number, STRATEGY, Measurement((1.0,)), "random"))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 2))
    with pytest.raises(StoreError, match="is damaged"), TrialStore(path) as store:
        store.trials(study)


V1 = """
CREATE TABLE graphs (fingerprint TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE studies (
    id INTEGER PRIMARY KEY, graph TEXT NOT NULL REFERENCES graphs, spec TEXT NOT NULL, batch_size INTEGER NOT NULL,
    label TEXT NOT NULL, begun REAL NOT NULL
);
CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies, number INTEGER NOT NULL, strategy TEXT NOT NULL, origin TEXT NOT NULL,
    predicted REAL, steps TEXT, warm_up INTEGER, prepared REAL, reason TEXT, message TEXT, ended REAL NOT NULL,
    PRIMARY KEY (study, number)
) WITHOUT ROWID;
PRAGMA user_version=1;
"""


def test_a_store_of_version_1_is_brought_to_this_one(tmp_path):
    path = tmp_path / "trials.db"
    with sqlite3.connect(path, isolation_level=None) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.executescript(V1)
        old.execute("INSERT INTO graphs VALUES ('f1', 'graph')")
        columns = "graph, spec, batch_size, label, begun"
        new_study = f"INSERT INTO studies ({columns}) VALUES ('f1', '{SPEC.to_json()}', 64, 'train.py', 0)"
        old.execute(new_study)
        trial = (1, 0, STRATEGY.to_json(), "random", 0.15, "[0.1]", 10, 0.7, None, None, 0.0)
        new_trial = f"INSERT INTO trials VALUES ({', '.join('?' * len(trial))})"
        old.execute(new_trial, trial)
        with TrialStore(path) as store:
            [study] = store.studies()
            assert (study.rules, study.label) == ((), "train.py")
            assert [trial.step_s for trial in store.trials(study)] == [0.1]
            ruled = store.revised(study, [Rule.exclude("ps")], PROFILE)
            # Who had the file open before goes on.
            old.execute(new_study)
            old.execute(new_trial, (2, *trial[1:]))
            assert store.studies()[0] == ruled
            assert [len(store.trials(study)) for study in store.studies()] == [1, 1]
    old.close()
    with TrialStore(path) as store:
        [study, _] = store.studies()
        assert (study.rules, study.profile) == ((Rule.exclude("ps"),), PROFILE)


def test_old_studies_stay_but_are_taken_for_those_of_no_graph_of_today(tmp_path):
    """Up to version 3, graphs with the same variables were stored as one."""
    path = tmp_path / "trials.db"
    with sqlite3.connect(path, isolation_level=None) as old:
        old.executescript(V1)
        old.execute("ALTER TABLE studies ADD COLUMN rules TEXT NOT NULL DEFAULT '[]'")
        old.execute("ALTER TABLE studies ADD COLUMN profile TEXT")
        old.execute("PRAGMA user_version=3")
        old.execute("INSERT INTO graphs VALUES ('f1', 'graph')")
        columns = "graph, spec, batch_size, label, begun"
        old.execute(f"INSERT INTO studies ({columns}) VALUES ('f1', '{SPEC.to_json()}', 64, 'train.py', 0)")
        trial = (1, 0, STRATEGY.to_json(), "random", 0.15, "[0.1]", 10, 0.7, None, None, 0.0)
        old.execute(f"INSERT INTO trials VALUES ({', '.join('?' * len(trial))})", trial)
    old.close()
    with TrialStore(path) as store:
        [study] = store.studies()
        assert (study.graph, store.graph(study)) == ("f1", "graph")
        assert [trial.step_s for trial in store.trials(study)] == [0.1]
        new = store.study(b"other", "f1", SPEC, 64, "train.py")
        assert [store.graph(study) for study in store.studies()] == ["graph", b"other"]
        assert store.studies()[-1] == new


def test_a_migration_that_is_interrupted_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "trials.db"
    old = sqlite3.connect(path)
    old.executescript(V1)
    old.close()
    statements = {1: ["ALTER TABLE studies ADD COLUMN rules TEXT NOT NULL DEFAULT '[]'; nonsense"], 2: [], 3: []}
    monkeypatch.setattr("autodist.search.store._store._MIGRATIONS", statements)
    with pytest.raises(StoreError):
        TrialStore(path)
    monkeypatch.undo()
    with TrialStore(path) as store:
        assert store.studies() == []


def test_rules_and_the_profile_are_stored_with_a_study(tmp_path):
    rules = (Rule.fix("embedding*=ps"), Rule.exclude("partition"))
    with TrialStore(tmp_path / "trials.db") as store:
        study = store.study(b"graph", "f1", SPEC, 64, "train.py --epochs 3", rules, PROFILE)
        assert (study.rules, study.profile) == (rules, PROFILE)
        assert store.studies() == [study]


def test_a_newer_store_is_refused(tmp_path):
    path = tmp_path / "trials.db"
    TrialStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="of version 99") as caught:
        TrialStore(path)
    assert caught.value.hint == "upgrade AutoDist"


def test_a_study_is_claimed_by_one_process_until_it_ends(tmp_path):
    """A search that was told to go on with one that runs made that one end."""
    path = tmp_path / "trials.db"
    TrialStore(path).close()
    holding = "\n".join(
        [
            "import pathlib, sys, autodist.search",
            "held = autodist.search.claim(pathlib.Path(sys.argv[1]), 1)",
            "print(held is not None, flush=True)",
            "input()",
        ]
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "True\n"
        assert claim(path, 1) is None
        with claim(path, 2), claim(tmp_path, 1):
            pass
        process.kill()
        process.wait()
    with claim(path, 1):
        assert claim(path, 1) is None
    with claim(path, 1):
        pass
