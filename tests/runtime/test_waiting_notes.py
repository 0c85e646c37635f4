"""What a worker that waits in vain is told of the others."""

import threading
import time

import pytest

from autodist.coordination import ChiefFiles, Worker, WorkerEnvironment
from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer
from autodist.errors import TimedOut


@pytest.fixture
def workers():
    with CoordinatorServer(world_size=2, token="test") as server:
        clients = [CoordinatorClient(server.address, server.port, "test", rank) for rank in range(2)]
        yield [Worker(WorkerEnvironment(rank=rank, world_size=2), client) for rank, client in enumerate(clients)]


def told(worker):
    return {rank: place.words for rank, place in worker.whereabouts.elsewhere().items()}


def test_who_waits_outside_of_steps_is_told_of_while_it_does(workers):
    first, second = workers
    first.steps_taken = second.steps_taken = 1
    with first.whereabouts.at("has left the scope"):
        assert told(second) == {0: "has left the scope after 1 step"}
        assert told(first) == {}
    assert told(second) == {}


def test_a_step_that_has_failed_is_told_of_wherever_the_script_goes_on(workers):
    first, second = workers
    first.steps_taken = second.steps_taken = 2
    first.whereabouts.stay("has failed in that step (no such row)")
    first.steps_taken = 3  # the engine counts it, whether it has failed or not
    with first.whereabouts.at("has left the scope"):
        assert told(second) == {0: "has failed in that step (no such row)"}
    assert told(second) == {0: "has failed in that step (no such row)"}
    assert all(place.is_for_good for place in second.whereabouts.elsewhere().values())


def test_a_failed_step_is_forgotten_when_the_worker_takes_part_in_those_of_another_scope(workers):
    first, second = workers
    first.whereabouts.stay("has failed in that step (other batches)")
    first.whereabouts.take_part()
    assert told(second) == {}
    with first.whereabouts.at("has left the scope"):
        assert told(second) == {0: "has left the scope after 0 steps"}


def test_a_place_within_another_one_is_left_for_that(workers):
    first, second = workers
    with first.whereabouts.at("is tracing a new step"):
        with first.whereabouts.at("looks for a checkpoint"):
            assert told(second) == {0: "looks for a checkpoint after 0 steps"}
        assert told(second) == {0: "is tracing a new step after 0 steps"}
    assert told(second) == {}


def test_who_waits_at_a_save_for_a_chief_that_is_in_a_step_is_told_of_in_seconds(workers):
    chief, other = workers
    chief.steps_taken = other.steps_taken = 812
    waiting = threading.Thread(target=ChiefFiles(other).wait, args=("Model.save",), daemon=True)
    waiting.start()
    until_s = time.monotonic() + 20
    while not (found := told(chief)) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert found == {1: "is at `Model.save` after 812 steps"}
    with ChiefFiles(chief).telling("Model.save"):
        pass
    waiting.join(20)
    assert not waiting.is_alive()
    assert told(chief) == {}


def test_who_waits_at_a_save_in_vain_says_so(workers):
    environment = WorkerEnvironment(rank=1, world_size=2, start_timeout_s=0.1)
    with pytest.raises(TimedOut, match=r"worker 1 has come to `Model\.save`, but the chief, which writes the file"):
        ChiefFiles(Worker(environment, workers[1].coordinator)).wait("Model.save")


def test_a_chief_that_waits_somewhere_else_is_not_waited_for_at_a_save(workers):
    chief, other = workers
    chief.steps_taken = other.steps_taken = 812
    with (
        chief.whereabouts.at("has left the scope"),
        pytest.raises(
            TimedOut, match=r"worker 1 has come to `Model\.save`, but the chief, .* has left the scope after 812"
        ),
    ):
        ChiefFiles(other).wait("Model.save")
