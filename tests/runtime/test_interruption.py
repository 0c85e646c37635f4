"""What a worker knows of an end that somebody wants, beside a coordinator in this process."""

import signal
import threading
import time

import pytest

from autodist.coordination import CoordinatorServer, Worker, WorkerEnvironment, _interruption
from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._interruption import Interruption


@pytest.fixture
def workers():
    """Two of a run."""
    with CoordinatorServer(2, "token") as server:
        yield [
            Worker(
                WorkerEnvironment(rank=rank, world_size=2), CoordinatorClient("127.0.0.1", server.port, "token", rank)
            )
            for rank in range(2)
        ]


def interrupt(worker):
    """Have a script stop at its next step."""
    worker.interruption.tell(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), worker.interruption.together():
        pass


def test_a_worker_that_has_ended_earlier_is_not_waited_for(workers, monkeypatch):
    monkeypatch.setattr(_interruption, "_AGREE_S", 30.0)
    chief, other = workers
    other.interruption.leave()
    began_s = time.monotonic()
    interrupt(chief)
    chief.interruption.leave()
    assert time.monotonic() - began_s < 20


def test_an_interrupted_worker_waits_for_one_that_still_saves(workers):
    chief, other = workers
    chief.coordinator.put("interruption/begun/0", b"0")
    interrupt(other)
    leaving = threading.Thread(target=other.interruption.leave)
    leaving.start()
    leaving.join(0.3)
    assert leaving.is_alive()
    chief.interruption.leave()
    leaving.join(10)
    assert not leaving.is_alive()


def test_nothing_interrupts_what_comes_after_the_script():
    worker = Worker(WorkerEnvironment())
    worker.interruption.leave()
    worker.interruption.tell(signal.SIGINT)
    assert worker.interruption.is_taken
    worker.interruption._interrupt_when_idle()  # returns at once, and sends no signal
    with worker.interruption.together():
        pass


def test_a_script_that_ends_while_workers_say_where_they_are(workers, monkeypatch):
    chief, _ = workers

    def furthest(begun):
        chief.interruption.leave()
        return begun

    monkeypatch.setattr(chief.interruption, "_furthest", furthest)
    chief.interruption.tell(signal.SIGINT)
    assert chief.interruption.is_taken


def test_a_meeting_is_counted_and_entered_at_once():
    """Between the two a worker would be interrupted that others wait for in this meeting."""
    seen = []

    class Watched(threading.Condition):
        def __exit__(self, *raised):
            super().__exit__(*raised)
            if not self._is_owned():
                seen.append((interruption._begun, interruption._depth))

    interruption = Interruption(Worker(WorkerEnvironment()))
    interruption._changed = Watched()
    with interruption.together():
        pass
    assert seen[0] == (1, 1)
