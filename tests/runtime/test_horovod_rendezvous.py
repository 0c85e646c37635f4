"""Where Horovod's workers meet: each at a server of its own process, which nobody else can use."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from autodist.carriers import _horovod_rendezvous as module
from autodist.carriers._horovod_environment import RENDEZVOUS_ADDRESS, RENDEZVOUS_PORT
from autodist.carriers._horovod_rendezvous import HorovodRendezvous
from autodist.coordination import CoordinatorClient, CoordinatorServer

_NOBODY = 65534
_STRANGER = """
import encodings.idna, http.client, json, os, sys  # all that it needs, since another user may not read Python's files
uid, port, *paths = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
found = []
for path in paths:
    for method in ("GET", "PUT", "DELETE"):
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        connection.request(method, path, b"evil")
        answer = connection.getresponse()
        found.append([answer.status, answer.read().decode()])
print(json.dumps(found))
"""


@pytest.fixture
def servers(monkeypatch):
    """Of two workers of a run."""
    monkeypatch.setattr(module, "_WAIT_S", 0.05)
    with CoordinatorServer(2, "token") as coordinator:
        clients = [CoordinatorClient(coordinator.address, coordinator.port, "token", rank) for rank in (0, 1)]
        found = [HorovodRendezvous(client) for client in clients]
        for server in found:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield found
        for server in found:
            server.shutdown()
            server.server_close()


def ask(server, method, path, value=None):
    """Ask as Horovod does."""
    variables = server.to_environ()
    place, _, secret = f"{variables[RENDEZVOUS_ADDRESS]}:{variables[RENDEZVOUS_PORT]}".partition("/")
    connection = http.client.HTTPConnection(place, timeout=30)
    connection.request(method, f"/{secret}{path}", value)
    answer = connection.getresponse()
    status, content = answer.status, answer.read()
    connection.close()
    return (status, content) if method == "GET" else status


def test_values_are_there_once_a_worker_has_put_them_and_stay_as_they_are(servers):
    own, other = servers
    assert ask(other, "GET", "/global/rank_0") == (404, b"")
    assert ask(own, "PUT", "/global/rank_0", b"\0address") == 200
    assert ask(own, "PUT", "/global/rank_0", b"\0address") == 200, "sent again, as after an answer that was lost"
    assert ask(own, "PUT", "/global/rank_0", b"another") == 409
    assert ask(own, "GET", "/global/rank_0") == ask(other, "GET", "/global/rank_0") == (200, b"\0address")
    assert ask(other, "GET", "/local_a/rank_0") == (404, b"")


def test_each_use_of_a_scope_has_values_of_its_own(servers):
    own, other = servers
    ask(own, "PUT", "/global/rank_0", b"old")
    ask(own, "PUT", "/other/rank_0", b"stays")
    assert ask(own, "DELETE", "/global/0") == 200
    assert ask(own, "GET", "/global/rank_0") == (404, b"")
    assert ask(other, "GET", "/global/rank_0") == (200, b"old"), "who has not yet connected still finds it"
    assert ask(own, "PUT", "/global/rank_0", b"new") == 200
    assert ask(other, "DELETE", "/global/1") == 200
    assert ask(other, "GET", "/global/rank_0") == (200, b"new")
    assert ask(other, "GET", "/other/rank_0") == (200, b"stays")


def test_another_user_of_the_machine_neither_reads_nor_writes(servers):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    own, other = servers
    ask(own, "PUT", "/global/rank_0", b"address")
    port = own.server_address[1]
    paths = ["/global/rank_0", f"/:{port}/global/rank_0", f"/{'0' * 32}:{port}/global/rank_0", "/", "//global/rank_0"]
    command = [sys.executable, "-c", _STRANGER, str(_NOBODY), str(port), *paths]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd="/")
    assert json.loads(told.stdout) == [[403, ""]] * (3 * len(paths))
    assert ask(other, "GET", "/global/rank_0") == (200, b"address")


def test_what_is_written_has_a_bound(servers, monkeypatch):
    own, _ = servers
    assert ask(own, "PUT", "/global/", b"x") == 400
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    monkeypatch.setattr(module, "_MOST_BYTES_IN_ALL", 15)
    monkeypatch.setattr(module, "_MOST_VALUES", 3)
    assert ask(own, "PUT", "/global/a", b"x" * 11) == 400
    assert ask(own, "PUT", "/global/a", b"x" * 10) == 200
    assert ask(own, "PUT", "/global/b", b"x" * 10) == 507
    assert [ask(own, "PUT", f"/global/{key}", b"x") for key in "bcd"] == [200, 200, 507]


def test_only_the_loopback_is_served(servers):
    for address in {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
        if not address.startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((address, servers[0].server_address[1]), timeout=20)
