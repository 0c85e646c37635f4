"""A stored search in Python: its best, and its trials as a table."""

import sys

import pytest

from autodist.errors import NotInstalled, StoreError
from autodist.search import Failure, Measurement, Trial, TrialStore, load_study

from .auto_stores import HERE, content, told


@pytest.fixture
def path(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2, PartitionedPS=None)
        study = store.studies()[0]
        first = store.trials(study)[0]
        store.add(study, Trial(0, first.strategy, first.outcome, first.origin, again=(Measurement((0.28,), round=1),)))
        store.study(content(), "another", HERE, 128, "empty.py")
    return tmp_path / "trials.db"


def test_the_best_and_the_columns_are_those_of_the_store(path):
    study = load_study(path, 1)
    assert (study.best_trial.number, study.best_value) == (1, 0.2)
    assert study.best_strategy == study.trials[1].strategy
    columns = study.columns()
    assert {len(column) for column in columns.values()} == {3}
    assert columns["step_s"] == [0.28, 0.2, None]
    assert columns["first_step_s"] == [0.3, 0.2, None]
    assert columns["measurements"] == [2, 1, 0]
    assert columns["failed"] == [None, None, "memory"]
    assert columns["carriers"][0] == "tcp"
    assert all(type(value) in (int, float, str, type(None)) for column in columns.values() for value in column)


def test_pandas_is_asked_for_only_where_a_table_of_it_is(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NotInstalled, match="pandas is not installed"):
        load_study(path, 1).trials_dataframe()


def test_what_is_not_there_is_told(path, tmp_path):
    with pytest.raises(StoreError, match="study 2 has no measured trial"):
        load_study(path).best_trial  # noqa: B018
    with pytest.raises(StoreError, match="has no study 7, allowed: 1, 2"):
        load_study(path, 7)
    with pytest.raises(StoreError, match="there is no trial store"):
        load_study(tmp_path / "nowhere.db")
    with TrialStore(tmp_path / "empty.db"), pytest.raises(StoreError, match="there are none so far"):
        load_study(tmp_path / "empty.db")
    assert isinstance(load_study(path, 1).trials[2].outcome, Failure)
