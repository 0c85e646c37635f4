"""Workers on the same processors: how many they are is found out, and each gets its share of threads."""

import math

import pytest

from autodist.agent import hardware
from autodist.resource_spec import ResourceSpec

THREADS = "print(os.environ.get('TF_NUM_INTRAOP_THREADS'))\nw.steps_taken += 1\n"


def test_this_machine():
    told = hardware.processors()
    assert 0 < told["usable"] <= len(told["numbers"])
    assert told["kernel"]


def test_workers_get_their_share_of_threads(bench, monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    share = math.ceil(hardware.processors()["usable"] / 2)
    result = bench.run(THREADS)
    told = str(share) if share < len(hardware.processors()["numbers"]) else "None"
    assert [bench.observer.texts(rank) for rank in (0, 1)] == [[told], [told]]
    assert ResourceSpec.from_json((result.run_dir / "spec.json").read_text()).cores_shared_by == 2


def test_a_worker_alone_has_all_threads(bench, monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    result = bench.run(THREADS, workers=1)
    whole = hardware.processors()
    told = "None" if whole["usable"] == len(whole["numbers"]) else str(math.ceil(whole["usable"]))
    assert bench.observer.texts(0) == [told]
    assert ResourceSpec.from_json((result.run_dir / "spec.json").read_text()).cores_shared_by == 1


@pytest.mark.parametrize("by", ["job", "environment"])
def test_what_the_user_has_set_counts(bench, monkeypatch, by):
    if by == "environment":
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "7")
    bench.run(THREADS, **({"env": {"TF_NUM_INTRAOP_THREADS": "7"}} if by == "job" else {}))
    assert [bench.observer.texts(rank) for rank in (0, 1)] == [["7"], ["7"]]
