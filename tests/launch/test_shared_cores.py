"""Workers on the same processors: how many they are is found out, and each gets its share of threads."""

import math

import pytest

from autodist.agent import hardware
from autodist.resource_spec import Host, Processors, ResourceSpec, cores_of_workers
from autodist.search import are_alike

THREADS = "print(os.environ.get('TF_NUM_INTRAOP_THREADS'))\nw.steps_taken += 1\n"


def hosts(count, **given):
    return [Host(f"h{rank}", f"h{rank}", **given) for rank in range(count)]


def test_workers_of_one_machine():
    found = cores_of_workers(hosts(3), {(0, 1): Processors("a", range(8), 8.0), (2,): Processors("b", range(8), 8.0)})
    assert found.shared_by == (2, 2, 1)
    assert found.threads == (4, 4, 0)


def test_containers_of_one_machine_have_one_kernel():
    everything, half = Processors("a", range(4), 4.0), (Processors("a", [0, 1], 2.0), Processors("a", [2, 3], 2.0))
    assert cores_of_workers(hosts(2), {(0,): everything, (1,): everything}).threads == (2, 2)
    apart = cores_of_workers(hosts(2), {(0,): half[0], (1,): half[1]})
    assert (apart.shared_by, apart.threads) == ((1, 1), (0, 0))


def test_quotas_count():
    halves = {(rank,): Processors("a", range(2), 1.0) for rank in range(2)}
    found = cores_of_workers(hosts(2), halves)
    assert (found.shared_by, found.threads) == ((1, 1), (1, 1))  # TensorFlow would take two
    assert cores_of_workers(hosts(1), {(0,): Processors("a", range(64), 1.5)}).threads == (2,)


def test_a_file_knows_more_than_kernels_of_virtual_machines():
    apart = {(rank,): Processors(str(rank), range(8), 8.0) for rank in range(2)}
    found = cores_of_workers(hosts(2, cores_shared_by=4), apart)
    assert (found.shared_by, found.threads) == ((4, 4), (2, 2))


def test_nothing_is_assumed_of_what_is_not_known():
    found = cores_of_workers(hosts(2), {(0,): Processors("", range(4), 4.0), (1,): Processors("", range(4), 4.0)})
    assert (found.shared_by, found.threads) == ((1, 1), (0, 0))


def test_workers_with_gpus_leave_their_processors_to_others():
    mixed = [*hosts(1, gpus=(0,)), *hosts(2)[1:]]
    found = cores_of_workers(mixed, {(0, 1): Processors("a", range(4), 4.0)})
    assert (found.shared_by, found.threads) == ((1, 1), (0, 0))
    assert cores_of_workers(hosts(2, gpus=(0,)), {(0, 1): Processors("a", range(4), 4.0)}).threads == (0, 0)


def test_the_spec_is_kept_for_workers_with_gpus():
    found = cores_of_workers(hosts(2, gpus=(0,), cores_shared_by=2), {(0, 1): Processors("a", range(4), 4.0)})
    assert (found.shared_by, found.threads) == ((2, 2), (0, 0))


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


def test_trials_of_a_cluster_whose_file_says_nothing_of_cores_are_of_this_cluster():
    unsaid, two, four = (ResourceSpec(tuple(hosts(2, cores_shared_by=count))) for count in (1, 2, 4))
    assert are_alike(unsaid, two)
    assert are_alike(four, unsaid)
    assert not are_alike(two, four)
