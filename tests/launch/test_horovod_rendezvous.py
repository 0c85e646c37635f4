"""Where Horovod's workers meet, without Horovod."""

import http.client
import socket

import pytest

from autodist.launch._horovod import horovod_rendezvous


@pytest.fixture
def ask():
    with horovod_rendezvous(["a", "a", "b"]) as rendezvous:

        def ask(method, path, value=None):
            connection = http.client.HTTPConnection(rendezvous.address, rendezvous.port, timeout=10)
            connection.request(method, path, value)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
            connection.close()
            return (status, content) if method == "GET" else status

        ask.port = rendezvous.port
        yield ask


def test_values_are_there_once_somebody_has_put_them(ask):
    assert ask("GET", "/global/rank_0") == (404, b"")
    assert ask("PUT", "/global/rank_0", b"\0address") == 200
    assert ask("GET", "/global/rank_0") == (200, b"\0address")
    assert ask("GET", "/local_a/rank_0") == (404, b"")


@pytest.mark.parametrize(("scope", "members"), [("global", 3), ("local_a", 2), ("cross_0", 2), ("cross_1", 1)])
def test_a_scope_is_emptied_by_the_last_of_its_workers(ask, scope, members):
    ask("PUT", f"/{scope}/key", b"old")
    ask("PUT", "/other/key", b"stays")
    for _ in range(members):
        assert ask("GET", f"/{scope}/key") == (200, b"old")
        assert ask("DELETE", f"/{scope}/key") == 200
    assert ask("GET", f"/{scope}/key") == (404, b"")
    assert ask("GET", "/other/key") == (200, b"stays")
    assert ask("DELETE", "/other/key") == 200
    assert ask("GET", "/other/key") == (404, b"")


def test_nonsense_is_refused_and_only_the_loopback_is_served(ask):
    assert ask("PUT", "/global", b"x") == 400
    assert ask("GET", "/") == (404, b"")
    with socket.create_connection(("127.0.0.1", ask.port), timeout=10) as connection:
        connection.sendall(b"PUT /a/b HTTP/1.0\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 400 " in connection.recv(100)
    for address in {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
        if not address.startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((address, ask.port), timeout=5)
