"""Stores of several people become one: nothing is lost, and nothing is there twice."""

import shutil
from dataclasses import replace
from pathlib import Path

from autodist.search import Failure, Measurement, Trial, TrialStore, export_studies, import_studies
from autodist.search.store._shared_disks import is_on_shared_disk
from autodist.strategies import get

from .auto_stores import GRAPH, HERE, SLOWER, told

MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:50 / /home rw shared:1 - nfs4 server:/home rw
41 40 0:51 / /home/me/local rw - tmpfs tmpfs rw
42 22 0:52 / /data\\040sets rw - fuse.sshfs far:/ rw
"""


def add(store, name, number, *measured):
    """A trial more in the only study of a store."""
    [study] = store.studies()
    store.add(study, Trial(number, get(name).build(GRAPH, HERE), measured[0], "random", again=measured[1:]))


def test_copies_that_have_grown_apart_become_one(tmp_path):
    mine, theirs = tmp_path / "mine.db", tmp_path / "theirs.db"
    with TrialStore(mine) as store:
        study = told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2, PartitionedPS=None)
    shutil.copy(mine, theirs)
    with TrialStore(mine) as store:
        add(store, "PartitionedAR", 3, Measurement((0.4,)))
        first = store.trials(study)[0]
        store.add(study, replace(first, again=(Measurement((0.31,), round=1),)))
    with TrialStore(theirs) as store:
        add(store, "PS", 3, Measurement((0.5,)), Measurement((0.52,), round=1))
        add(store, "PartitionedPS", 2, Measurement((0.6,)))
        store.add(study, replace(first, again=(Measurement((0.29,), round=1),)))
        store.add_floor(study, Measurement((0.05,)))

    for _ in range(2):  # a second time there is nothing new
        with TrialStore(mine) as store:
            assert [one.id for one in import_studies(store, theirs)] == [study.id]
            [merged] = store.studies()
            trials = store.trials(merged)
            floor = store.floor(merged)
        assert [trial.step_s is None for trial in trials] == [False] * 5
        assert [trial.outcome.steps_s for trial in trials] == [(0.3,), (0.2,), (0.6,), (0.4,), (0.5,)]
        assert [[one.steps_s for one in trial.again] for trial in trials] == [
            [(0.31,), (0.29,)], [], [], [], [(0.52,)],
        ]  # fmt: skip
        assert [one.steps_s for one in floor] == [(0.05,)]


def test_what_is_another_search_stays_one_of_its_own(tmp_path):
    with TrialStore(tmp_path / "mine.db") as mine, TrialStore(tmp_path / "theirs.db") as theirs:
        told(mine, HERE, AllReduce=0.3)
        told(theirs, HERE, AllReduce=0.35)
        told(theirs, SLOWER, AllReduce=0.3)
        told(theirs, HERE, AllReduce=None)
        export_studies(theirs, theirs.studies(), tmp_path / "theirs.zip")
        import_studies(mine, tmp_path / "theirs.zip", tmp_path / "theirs.zip")
        assert [study.id for study in mine.studies()] == [1, 2, 3, 4, 5], "of the failed one nobody knows whose it is"
        assert isinstance(mine.trials(mine.studies()[3])[0].outcome, Failure)


def test_disks_that_machines_share_are_known(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    places = {
        "/home/me/trials.db": True,
        "/home/me/local/trials.db": False,
        "/homes/t.db": False,
        "/data sets/t.db": True,
    }
    assert {place: is_on_shared_disk(Path(place), mounts) for place in places} == places
    assert not is_on_shared_disk(Path("/t.db"), tmp_path / "nothing")
