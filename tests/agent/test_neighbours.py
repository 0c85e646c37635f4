"""Who counts as reached: whoever answers at all."""

import socket
import time

from autodist.agent.machine import _neighbours


def test_who_listens_and_who_refuses_is_reached():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        targets = [["a", "127.0.0.1", _neighbours.listen("127.0.0.1", 20000, 31999)], ["b", *closed.getsockname()]]
        assert _neighbours.silent(targets, 5.0) == []


def test_a_process_that_does_nothing_is_reached_as_its_kernel_answers():
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        assert _neighbours.silent([["a", *stopped.getsockname()]], 5.0) == []


def test_who_answers_nothing_is_silent_after_the_time():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):  # the next one has no place, and the kernel drops it
            started_s = time.monotonic()
            listening = _neighbours.listen("127.0.0.1", 20000, 31999)
            found = _neighbours.silent([["b", *full.getsockname()], ["a", "127.0.0.1", listening]], 0.5)
    assert found == ["b"]
    assert 0.4 < time.monotonic() - started_s < 30


def test_who_connects_is_sent_away_and_the_next_one_is_answered_as_well():
    port = _neighbours.listen("127.0.0.1", 20000, 31999)
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", port), 30) as end:
            assert end.recv(1) == b""


def test_nobody_to_ask():
    assert _neighbours.silent([], 5.0) == []
