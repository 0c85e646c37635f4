"""What workers ask each other for: whole answers to the question that was asked, or none."""

import gc
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autodist.coordination import Worker, WorkerEnvironment
from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer
from autodist.errors import WorkerFailed
from autodist.runtime.session._remote_values import _RemoteValues

WANTED = {name: (name, (3,), np.float32) for name in ("kernel", "momentum")}


class Session:
    """Of the worker that answers: tells values, but only when it may."""

    def __init__(self):
        self.may_tell = threading.Event()
        self.may_tell.set()

    def read(self, names):
        self.may_tell.wait()
        for name in names:
            yield name, np.full(3, list(WANTED).index(name), np.float32)


@pytest.fixture
def ends():
    ends = [_RemoteValues(), _RemoteValues()]
    with CoordinatorServer(world_size=2, token="test") as server, ThreadPoolExecutor() as pool:
        clients = [CoordinatorClient(server.address, server.port, "test", rank) for rank in range(2)]
        workers = [Worker(WorkerEnvironment(rank=rank, world_size=2), client) for rank, client in enumerate(clients)]
        list(pool.map(_RemoteValues.open, ends, workers))
        yield ends
        for end in ends:
            end._close()


def asked(end, name):
    return end.read(1, "scope", [WANTED[name]], 10.0)[0].tolist()


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another_one(ends):
    asking, answering = ends
    session = Session()
    answering.answer_from("scope", session.read)
    assert asked(asking, "momentum") == [1, 1, 1]
    session.may_tell.clear()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            asked(asking, "kernel")
    finally:
        signal.signal(signal.SIGALRM, previous)
    session.may_tell.set()
    with pytest.raises(WorkerFailed, match="can't be asked any more"):
        asked(asking, "momentum")


def test_a_session_that_the_program_has_given_up_is_not_kept_to_answer(ends):
    asking, answering = ends
    session = Session()
    answering.answer_from("scope", session.read)
    assert asked(asking, "kernel") == [0, 0, 0]
    kept = weakref.ref(session)
    del session
    until_s = time.monotonic() + 10
    while kept() is not None and time.monotonic() < until_s:  # the thread that has answered may still hold it
        gc.collect()
        time.sleep(0.01)
    assert kept() is None
    with pytest.raises(WorkerFailed, match="has left the scope"):
        asked(asking, "kernel")
    fresh = Session()
    answering.answer_from("scope", fresh.read)
    assert asked(asking, "kernel") == [0, 0, 0]


@pytest.mark.parametrize("sent", [b"5", b"[", b"{}", b'{"sizes": [8]}', b"[" * 100_000])
def test_what_is_no_answer_ends_with_the_name_of_who_was_asked(ends, sent):
    asking, answering = ends
    (connection,) = answering._answering
    connection.sendall(len(sent).to_bytes(4, "big") + sent)
    with pytest.raises(WorkerFailed, match="worker 1, where `kernel` lives, is gone: it"):
        asked(asking, "kernel")


@pytest.mark.parametrize("sent", [b"5", b"[1, 2, 3]", b"[[], []]", b"{"])
def test_what_is_no_question_is_not_answered(ends, sent):
    asking, answering = ends
    answering.answer_from("scope", Session().read)
    asking._asked[1].sendall(len(sent).to_bytes(4, "big") + sent)
    with pytest.raises(WorkerFailed):
        asked(asking, "kernel")
