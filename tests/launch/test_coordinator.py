import contextlib
import http.client
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.coordination import FailureNote, make_certificate
from autodist.coordination._coordinator_client import MAX_VALUE_BYTES, CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer
from autodist.errors import LaunchError, TimedOut, UsageError, WorkerFailed
from autodist.transport import _http_server

TOKEN = "correct horse"


@pytest.fixture
def server():
    with CoordinatorServer(world_size=3, token=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def shared_server():
    with CoordinatorServer(world_size=3, token=TOKEN) as server:
        yield server


def client(server, rank=0, token=TOKEN, certificate=""):
    return CoordinatorClient(server.address, server.port, token, rank, certificate)


def later(delay_s, function, *args):
    timer = threading.Timer(delay_s, function, args)
    timer.start()
    return timer


def test_get_waits_for_put(server):
    timer = later(0.2, client(server, 1).put, "strategy", b"\0\xff{}")
    assert client(server).get("strategy", timeout_s=20.0) == b"\0\xff{}"
    timer.join()
    client(server).put("strategy", b"new")
    assert client(server, 2).get("strategy", timeout_s=0.0) == b"new"


def test_get_that_times_out_names_key_and_bound(server):
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"`nothing/here` within 0\.2 s"):
        client(server).get("nothing/here", timeout_s=0.2)
    assert time.monotonic() - began < 20.0


@settings(max_examples=50, deadline=None)
@given(key=st.text(st.characters(exclude_categories=["Cs"])), value=st.binary(max_size=1000))
def test_any_key_and_value(shared_server, key, value):
    client(shared_server).put(key, value)
    assert client(shared_server, 1).get(key, timeout_s=1.0) == value


def test_values_up_to_the_bound_are_kept_and_larger_ones_refused(server):
    value = bytes(range(256)) * (MAX_VALUE_BYTES // 256)
    client(server).put("large", value)
    assert client(server).get("large", timeout_s=30.0) == value
    with pytest.raises(UsageError, match=str(MAX_VALUE_BYTES + 1)):
        client(server).put("larger", value + b"x")


def test_larger_values_are_refused_by_the_server_too(server):
    connection = http.client.HTTPConnection(server.address, server.port, timeout=10.0)
    connection.putrequest("PUT", "/values/k?rank=0")
    connection.putheader("X-AutoDist-Token", TOKEN)
    connection.putheader("Content-Length", str(MAX_VALUE_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_barrier_passes_when_all_have_come_and_can_be_used_again(server):
    def pass_twice(rank):
        for _ in range(20):
            client(server, rank).barrier("epoch", timeout_s=30.0)
        return rank

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(pass_twice, range(3))) == [0, 1, 2]


def test_barrier_that_times_out_names_who_is_missing(server):
    with ThreadPoolExecutor(2) as pool:
        waits = [
            pool.submit(client(server, 0).barrier, "b", 2.0),
            pool.submit(client(server, 2).barrier, "b", 60.0),
        ]
        for wait in waits:
            with pytest.raises(TimedOut, match=r"barrier `b` timed out after 2 s: worker 1 of 3 did not come"):
                wait.result(timeout=30.0)
    began = time.monotonic()
    with pytest.raises(TimedOut, match="worker 1 of 3 did not come"):
        client(server, 1).barrier("b", 10.0)
    assert time.monotonic() - began < 20.0


def test_many_clients_at_once():
    with CoordinatorServer(world_size=32, token=TOKEN) as server, ThreadPoolExecutor(32) as pool:

        def work(rank):
            me = client(server, rank)
            me.barrier("start", timeout_s=20.0)
            me.put(f"from {rank}", str(rank).encode() * 1000)
            return me.get(f"from {31 - rank}", timeout_s=20.0)

        assert list(pool.map(work, range(32))) == [str(31 - rank).encode() * 1000 for rank in range(32)]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "ünicode"])
def test_wrong_token_is_refused(server, token):
    stranger = client(server, token=token.encode("utf-8").decode("latin-1"))
    for attempt in (
        lambda: stranger.put("k", b"v"),
        lambda: stranger.get("k", 1.0),
        lambda: stranger.barrier("b", 1.0),
        lambda: stranger.report(1, None),
    ):
        with pytest.raises(LaunchError, match="refuses this token"):
            attempt()
    stranger.fail(FailureNote("I am not of this run"))
    client(server).put("still", b"works")
    assert server.progress() == {}


@pytest.mark.parametrize(
    "path", ["/values/k", "/", "/nothing?rank=0", "/barriers/b?rank=x&timeout_s=1", "/values/k?rank=0"]
)
def test_malformed_requests_get_an_answer(server, path):
    connection = http.client.HTTPConnection(server.address, server.port, timeout=10.0)
    connection.request("POST", path, b"", {"X-AutoDist-Token": TOKEN})
    assert connection.getresponse().status in (400, 404)
    connection.close()


def test_failure_of_a_worker_ends_all_waits():
    failures = []
    with (
        CoordinatorServer(3, TOKEN, on_fail=lambda *failure: failures.append(failure)) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        waits = [
            pool.submit(client(server, 0).get, "never", 60.0),
            pool.submit(client(server, 1).barrier, "never", 60.0),
        ]
        time.sleep(0.2)
        began = time.monotonic()
        client(server, 2).fail(FailureNote("ValueError: no\nnever", 5, "hint", "a.py:1", ("a.py:1  f()",)))
        for wait in waits:
            with pytest.raises(WorkerFailed, match="worker 2 failed: ValueError: no"):
                wait.result(timeout=30.0)
        assert time.monotonic() - began < 20.0
        assert failures == [(2, FailureNote("ValueError: no\nnever", 5, "hint", "a.py:1", ("a.py:1  f()",)))]
        with pytest.raises(WorkerFailed):
            client(server, 1).barrier("another", 60.0)


def test_end_of_the_server_ends_waits():
    server = CoordinatorServer(2, TOKEN)
    with ThreadPoolExecutor(1) as pool:
        with server:
            wait = pool.submit(client(server).get, "never", 60.0)
            time.sleep(0.2)
        with pytest.raises((WorkerFailed, LaunchError)):
            wait.result(timeout=30.0)
    with pytest.raises(LaunchError, match=f"lost the coordinator at 127.0.0.1:{server.port}"):
        client(server).get("k", 1.0)
    client(server).fail(FailureNote("nobody hears it"))


def test_who_has_the_certificate_speaks_encrypted_and_nobody_else_at_all():
    own, another = make_certificate(), make_certificate()
    with CoordinatorServer(2, TOKEN, certificate=own) as server, CoordinatorServer(2, TOKEN) as plain:
        value = bytes(range(256)) * 4_000
        client(server, 1, certificate=own.text).put("key", value)
        assert client(server, certificate=own.text).get("key", 5.0) == value
        with pytest.raises(LaunchError, match="refuses this token"):
            client(server, token="wrong", certificate=own.text).get("key", 1.0)
        for wrong, certificate in ((server, ""), (server, another.text), (plain, own.text)):
            with pytest.raises(LaunchError, match="lost the coordinator"):
                client(wrong, certificate=certificate).put("key", b"changed")
        assert server.get("key", 0.0) == value
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((server.address, server.port)) as one, pytest.raises(ssl.SSLError):
            context.wrap_socket(one)
    assert TOKEN not in repr(client(server, certificate=own.text))
    assert own.text not in repr(client(server, certificate=own.text))


@pytest.mark.parametrize("certificate", [None, make_certificate()], ids=["plain", "encrypted"])
def test_strangers_have_a_bound_and_keep_no_worker_waiting(monkeypatch, certificate):
    text = "" if certificate is None else certificate.text
    monkeypatch.setattr(_http_server, "_STRANGER_S", 1.0)
    monkeypatch.setattr(_http_server, "_MOST_STRANGERS", 20)
    threads = threading.active_count()
    with CoordinatorServer(2, TOKEN, certificate=certificate) as server, contextlib.ExitStack() as stack:
        place = (server.address, server.port)
        silent = [stack.enter_context(socket.create_connection(place)) for _ in range(100)]
        client(server, certificate=text).put("key", b"value")
        deadline = time.monotonic() + 30
        while threading.active_count() > threads + 22 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= threads + 22
        waiting = later(2.0, client(server, 1, certificate=text).put, "late", b"value")
        assert (
            client(server, certificate=text).get("late", timeout_s=20.0) == b"value"
        )  # who has shown the token may wait longer
        waiting.join()
        for one in silent:
            one.settimeout(20)
            assert one.recv(1) == b""
        drip = stack.enter_context(socket.create_connection(place))
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 30:
                drip.sendall(b"G")
                time.sleep(0.2)
        assert time.monotonic() - began < 20


def test_a_worker_that_a_busy_machine_holds_up_is_not_lost(server, monkeypatch):
    """It has connected, but comes to say who it is only when the coordinator has given it up."""
    monkeypatch.setattr(_http_server, "_STRANGER_S", 0.8)
    connect, late = http.client.HTTPConnection.connect, [1.5] * 3

    def connect_and_be_held_up(connection):
        connect(connection)
        time.sleep(late.pop() if late else 0.0)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect_and_be_held_up)
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(lambda rank: client(server, rank).barrier("b", 20.0), range(3))) == [None] * 3
    late.append(1.5)
    client(server).put("key", b"value")
    late.append(1.5)
    assert client(server, 1).get("key", 5.0) == b"value"
    assert late == []


def test_who_does_not_hear_that_all_have_come_may_ask_again(server):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda rank: server.barrier("b", rank, 20.0, call=f"first of {rank}"), range(3)))
    server.barrier("b", 1, 0.0, call="first of 1")
    with pytest.raises(Exception, match="workers 0, 2 of 3 did not come"):
        server.barrier("b", 1, 0.0, call="second of 1")


def test_half_a_value_is_none(server):
    with socket.create_connection((server.address, server.port)) as one:
        head = f"PUT /values/key?rank=0 HTTP/1.1\r\nX-AutoDist-Token: {TOKEN}\r\nContent-Length: 10\r\n\r\n"
        one.sendall(head.encode() + b"half")
        one.shutdown(socket.SHUT_WR)
        one.settimeout(20)
        assert one.recv(1) == b""
    assert server.peek("key") is None


def test_progress_keeps_the_time_of_the_last_change(server):
    client(server, 1).report(3, None)
    first = server.progress()[1]
    time.sleep(0.05)
    client(server, 1).report(3, True)
    second = server.progress()[1]
    assert (second.steps, second.in_step, second.changed_s) == (3, True, first.changed_s)
    assert second.heard_s > first.heard_s
    client(server, 1).report(4, False)
    assert server.progress()[1].changed_s > first.changed_s


def test_repr_has_no_token(server):
    assert TOKEN not in repr(client(server))


def test_names_of_hosts_can_be_encoded_by_the_first_of_several_threads():
    code = "import sys, autodist.coordination._coordinator_client; sys.meta_path.clear(); 'localhost'.encode('idna')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_how_long_steps_take_is_known_from_the_reports(server):
    paces = []
    for steps in (0, 2, 4, 4):
        server.note_progress(0, steps, in_step=True)
        paces.append(server.progress()[0].pace_s)
        time.sleep(0.2)
    assert paces[:2] == [0, 0]  # what comes before the first step is no step
    assert 0.1 <= paces[2] < 10
    assert paces[3] == paces[2]
