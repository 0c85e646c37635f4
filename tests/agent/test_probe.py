"""Probes between two ends on this machine."""

import contextlib
import secrets
import socket
import struct
import time

import pytest

from autodist.agent.machine import _probe

TOKEN = secrets.token_hex(32)


@pytest.fixture(scope="module")
def port():
    return _probe.listen("127.0.0.1", 20000, 31999, TOKEN, 120.0)


def test_the_port_is_in_the_range(port):
    assert 20000 <= port <= 31999


def test_reach_says_why_not(port):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        targets = [["a", "127.0.0.1", port], ["b", "127.0.0.1", closed.getsockname()[1]], ["c", "nowhere.invalid", 1]]
        found = _probe.reach(targets, TOKEN, 5.0)
    assert found["a"] == ""
    assert found["b"] == "Connection refused"
    assert found["c"]


def test_who_does_not_answer_is_waited_for_in_vain_only_for_so_long():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        started = time.monotonic()
        found = _probe.reach([["a", "127.0.0.1", mute.getsockname()[1]]], TOKEN, 0.5)
    assert "timed out" in found["a"] or "no answer" in found["a"]
    assert time.monotonic() - started < 30


def test_latency_and_bandwidth(port):
    assert 0 < _probe.latency("127.0.0.1", port, TOKEN, 21) < 1000
    assert 0.01 < _probe.bandwidth("127.0.0.1", port, TOKEN, 0.05, 0.2) < 1000


def test_who_still_sends_when_the_answer_comes_is_not_cut_off(port):
    with socket.create_connection(("127.0.0.1", port), 30) as end:
        end.sendall(TOKEN.encode() + b"S" + struct.pack("!dd", 0.0, 0.1))
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            end.sendall(bytes(1 << 18))
        end.shutdown(socket.SHUT_WR)
        assert struct.unpack("!d", end.recv(8))[0] > 0


def test_strangers_are_not_answered(port):
    with pytest.raises(OSError):
        _probe.latency("127.0.0.1", port, secrets.token_hex(32), 3)
    with socket.create_connection(("127.0.0.1", port), 30) as end:
        end.sendall(b"GET / HTTP/1.0\r\n" + b"x" * 100)
        with contextlib.suppress(ConnectionResetError):
            assert end.recv(100) == b""
    assert _probe.reach([["a", "127.0.0.1", port]], TOKEN, 20.0) == {"a": ""}


def test_listening_ends_with_its_time():
    port = _probe.listen("127.0.0.1", 20000, 31999, TOKEN, 0.2)
    deadline = time.monotonic() + 30
    while _probe.reach([["a", "127.0.0.1", port]], TOKEN, 5.0)["a"] == "" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _probe.reach([["a", "127.0.0.1", port]], TOKEN, 5.0) == {"a": "Connection refused"}


def test_foreign_addresses_and_full_ranges_are_refused(port):
    with pytest.raises(OSError):
        _probe.listen("192.0.2.77", 20000, 31999, TOKEN, 1.0)
    with pytest.raises(OSError):
        _probe.listen("127.0.0.1", port, port, TOKEN, 1.0)
