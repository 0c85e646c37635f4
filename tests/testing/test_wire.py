"""The kernel's counts of bytes are those of the connection that carried them."""

import doctest
import socket
import time

import autodist.testing._wire as module
from autodist.testing import sent_bytes, wire_bytes


def test_docstring_examples():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted


def test_both_ends_count_the_same_bytes():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        with socket.create_connection(server.getsockname()[:2]) as one, server.accept()[0] as other:
            forth = one.getsockname()[:2], one.getpeername()[:2]
            back = forth[::-1]
            before = wire_bytes()
            one.sendall(b"x" * 123_456)
            assert len(other.recv(123_456, socket.MSG_WAITALL)) == 123_456
            deadline = time.monotonic() + 5.0
            while sent_bytes(before, after := wire_bytes())[forth] < 123_456 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert sent_bytes(before, after)[forth] == 123_456
            assert sent_bytes(before, after)[back] == 0
            assert after[back][1] - before[back][1] == 123_456
        assert forth not in wire_bytes()
