"""Which workers compute on the same processors, and how many threads each of them gets."""

from autodist.resource_spec import Host, Processors, cores_of_workers


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
    together = cores_of_workers(hosts(4), {(0, 1, 2, 3): Processors("a", range(8), 2.0)})
    assert (together.shared_by, together.threads) == ((4,) * 4, (1,) * 4)


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
