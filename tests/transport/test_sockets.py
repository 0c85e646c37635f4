"""Workers connect to each other, and to nobody else."""

import contextlib
import socket
import threading
import time

import pytest

from autodist.errors import LaunchError
from autodist.transport import Endpoint, _callers, connected, listening
from autodist.transport._peer_handshake import HELLO_BYTES, OPENING

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
                one.socket.close()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_pair_has_one_connection(count):
    found = connect_all(count)
    with closing(found):
        for rank, connections in found.items():
            assert sorted(connections) == [other for other in range(count) if other != rank]
            for other, (connection, key) in connections.items():
                connection.sendall(bytes([rank]))
                assert found[other][rank].socket.recv(1) == bytes([rank])
                assert found[other][rank].key == key
        keys = {connection.key for connections in found.values() for connection in connections.values()}
        assert len(keys) == count * (count - 1) // 2, "each pair has a key of its own"


def test_a_connection_is_not_kept_for_ever_when_nothing_comes_back():
    for connections in connect_all(2).values():
        for connection, _ in connections.values():
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
            connection.close()


def test_who_does_not_know_the_secret_is_refused():
    found = connect_all(2, secrets={1: b"of another run"}, timeout_s=4.0)
    assert "worker 0 was not connected to by all others in time, missing: 1" in found[0].message
    assert "the listener there is not of this run" in found[1].message


@contextlib.contextmanager
def two_workers(waiting_s=10.0):
    """A worker that waits for another one; the function given connects that, and returns what both have then."""
    found = {}
    with listening("127.0.0.1") as listener, listening("127.0.0.1") as other:
        place = listener.getsockname()
        waiting = threading.Thread(
            target=lambda: found.update({0: connected(listener, 0, {1: Endpoint("", 0)}, SECRET, waiting_s)})
        )
        waiting.start()

        def connect():
            found[1] = connected(other, 1, {0: Endpoint(*place)}, SECRET, waiting_s)
            waiting.join()
            return found

        yield place, connect
        waiting.join()


def test_strangers_do_not_keep_workers_waiting(caplog, monkeypatch):
    monkeypatch.setattr(_callers, "_STRANGER_S", 30.0)
    with contextlib.ExitStack() as stack, two_workers(waiting_s=60.0) as (place, connect):
        silent = [stack.enter_context(socket.create_connection(place)) for _ in range(20)]
        with socket.create_connection(place) as wrong:
            wrong.sendall(b"GET / HTTP/1.1\r\nHost: a.host.that.asks.for.something\r\n\r\n")
            assert wrong.recv(100)[:4] == b"ADtp"
        silent[3].sendall(b"A")  # a drop, and then nothing
        began = time.monotonic()
        with closing(connect()):
            pass
        assert time.monotonic() - began < 20
    assert "a stranger at 127.0.0.1" in caplog.text
    assert "it speaks something else" in caplog.text


def test_who_drips_is_sent_away_after_three_seconds(caplog):
    with two_workers(waiting_s=40.0) as (place, connect), socket.create_connection(place) as drip:
        drip.settimeout(0.4)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                drip.sendall(b"A" if time.monotonic() - began > 0.5 else b"")
                with contextlib.suppress(TimeoutError):
                    assert drip.recv(1) == b""
                    break
        assert 2 < time.monotonic() - began < 15
        with closing(connect()):
            pass
    assert "it has not proved within 3 s that it is of this run" in caplog.text


def test_more_strangers_than_are_listened_to():
    with contextlib.ExitStack() as stack, two_workers() as (place, connect):
        for _ in range(300):
            stack.enter_context(socket.create_connection(place))
        with closing(connect()):
            pass


@pytest.mark.parametrize(
    ("opening", "words"),
    [(b"ADtp\x09<", "speaks version 9 of the transport"), (OPENING[:-1] + b">", "has numbers in big-endian order")],
)
def test_another_version_is_named_by_both(opening, words, caplog, monkeypatch):
    with two_workers() as (place, connect), socket.create_connection(place) as other:
        other.sendall(opening + bytes(HELLO_BYTES - len(opening)))
        other.settimeout(20)
        assert other.recv(100) == OPENING
        with closing(connect()):
            pass
    assert words in caplog.text

    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(HELLO_BYTES)
            connection.sendall(opening)

    with listening("127.0.0.1") as listener, listening("127.0.0.1") as own:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(LaunchError, match=words):
            connected(own, 1, {0: Endpoint(*listener.getsockname())}, SECRET, 5.0)
        thread.join()


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


def test_a_listener_that_drips_is_not_heard_longer_than_the_time_in_all():
    def drip():
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            for number in range(len(OPENING) + 64):
                connection.sendall(OPENING[number : number + 1] or b"x")
                time.sleep(0.3)

    with listening("127.0.0.1") as listener, listening("127.0.0.1") as own:
        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(LaunchError, match=r"worker 1 can't connect to worker 0 .*: timed out"):
            connected(own, 1, {0: Endpoint(*listener.getsockname())}, SECRET, 1.0)
        assert time.monotonic() - began < 10
        thread.join()
