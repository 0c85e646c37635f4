"""Workers connect to each other, and to nobody else."""

import contextlib
import socket
import threading
import time

import pytest

from autodist.errors import LaunchError
from autodist.transport import Endpoint, connected, listening

SECRET = b"of this run"


def connect_all(count, secrets=None, timeout_s=10.0):
    """What each of several workers gets: its connections, or an error."""
    listeners = [listening("127.0.0.1") for _ in range(count)]
    endpoints = {rank: Endpoint(*listener.getsockname()) for rank, listener in enumerate(listeners)}
    found = {}

    def connect(rank):
        others = {other: endpoint for other, endpoint in endpoints.items() if other != rank}
        secret = (secrets or {}).get(rank, SECRET)
        try:
            found[rank] = connected(listeners[rank], rank, others, secret, timeout_s)
        except LaunchError as error:
            found[rank] = error

    threads = [threading.Thread(target=connect, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()
    return found


@contextlib.contextmanager
def closing(found):
    try:
        yield
    finally:
        for connections in found.values():
            for one in connections.values() if isinstance(connections, dict) else ():
                one.close()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_pair_has_one_connection(count):
    found = connect_all(count)
    with closing(found):
        for rank, connections in found.items():
            assert sorted(connections) == [other for other in range(count) if other != rank]
            for other, connection in connections.items():
                connection.sendall(bytes([rank]))
                assert found[other][rank].recv(1) == bytes([rank])


def test_who_does_not_know_the_secret_is_refused():
    found = connect_all(2, secrets={1: b"of another run"}, timeout_s=2.0)
    assert "worker 0 was not connected to by all others in time, missing: 1" in found[0].message
    assert "who listens there is not of this run" in found[1].message


def test_strangers_do_not_keep_workers_waiting():
    listener = listening("127.0.0.1")
    place = listener.getsockname()
    silent = socket.create_connection(place)
    wrong = socket.create_connection(place)
    wrong.sendall(b"GET / HTTP/1.1\r\nHost: a.host.that.asks.for.something\r\n\r\n")
    wrong.close()
    silent.close()
    found = {}
    waiting = threading.Thread(
        target=lambda: found.update({0: connected(listener, 0, {1: Endpoint("", 0)}, SECRET, 10.0)})
    )
    waiting.start()
    with listening("127.0.0.1") as other:
        found[1] = connected(other, 1, {0: Endpoint(*place)}, SECRET, 10.0)
    waiting.join()
    listener.close()
    with closing(found):
        assert list(found[0]) == [1]


def test_a_worker_that_does_not_come_is_named_in_time():
    began = time.monotonic()
    with listening("127.0.0.1") as listener, pytest.raises(LaunchError, match="missing: 1, 2"):
        connected(listener, 0, {1: Endpoint("", 0), 2: Endpoint("", 0)}, SECRET, 0.3)
    assert time.monotonic() - began < 5


def test_a_worker_that_can_not_be_reached_is_named():
    with listening("127.0.0.1") as gone:
        place = gone.getsockname()
    with listening("127.0.0.1") as listener, pytest.raises(LaunchError, match=f"worker 0 at .*, port {place[1]}"):
        connected(listener, 1, {0: Endpoint(*place)}, SECRET, 2.0)
