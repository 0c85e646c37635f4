"""Sockets that listen on all addresses, narrowed to one of them."""

import contextlib
import os
import socket
import threading

import pytest

from autodist.runtime import _server
from autodist.runtime._listeners import accept_only_at


def connects(address: str, port: int) -> bool:
    """Whether somebody answers; what is dropped is never answered."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(0.3)
        try:
            client.connect((address, port))
        except OSError:
            return False
        return True


@pytest.fixture
def port():
    """One that is listened on at all addresses, of both versions, as TensorFlow does."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        yield server.getsockname()[1]


def test_one_address_is_left(port):
    addresses = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "::1")
    assert [connects(address, port) for address in addresses] == [True] * 4
    accept_only_at("127.0.0.2", port)
    assert [connects(address, port) for address in addresses] == [False, True, False, False]
    accept_only_at("::1", port)
    assert [connects(address, port) for address in addresses] == [False, False, False, True]


def test_other_listeners_are_left_alone(port):
    with socket.create_server(("", 0)) as other:
        accept_only_at("127.0.0.2", port)
        assert connects("127.0.0.3", other.getsockname()[1])


def test_much_data_passes_the_filter():
    """More than the largest packet, both ways: the filter must not cut packets short."""
    sent = bytes(range(256)) * 2**16
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        accept_only_at("127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port), 10.0) as client, server.accept()[0] as served:
            served.settimeout(10.0)
            for source, target in ((client, served), (served, client)):
                writer = threading.Thread(target=source.sendall, args=(sent,))
                writer.start()
                received = bytearray()
                while len(received) < len(sent):
                    received += target.recv(2**20)
                writer.join()
                assert received == sent


def test_earlier_connections_to_other_addresses_are_closed():
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        contextlib.ExitStack() as stack,
    ):
        port = server.getsockname()[1]
        wanted, unwanted = (
            stack.enter_context(socket.create_connection((address, port), 5.0))
            for address in ("127.0.0.2", "127.0.0.3")
        )
        accepted = [stack.enter_context(server.accept()[0]) for _ in range(2)]
        accept_only_at("127.0.0.2", port)
        assert unwanted.recv(1) == b""
        for connection in accepted:
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
        assert wanted.recv(1) == b"x"


def test_what_can_not_be_done_is_told(port):
    with pytest.raises(ValueError, match=r"`192\.0\.2\.1` is no address of this machine"):
        accept_only_at("192.0.2.1", port)
    with pytest.raises(ValueError, match="worker1"):
        accept_only_at("worker1", port)
    with pytest.raises(OSError, match="no socket that listens on port 1"):
        accept_only_at("127.0.0.1", 1)


def test_a_worker_that_can_not_narrow_its_port_says_so_once(port, caplog):
    for _ in range(2):
        _server._narrow("192.0.2.1", port)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"port {port} accepts connections to all addresses of this machine" in caplog.text
    assert "firewall" in caplog.text


def test_no_descriptor_is_left_open(port, tmp_path):
    one, other = socket.socketpair()
    with (tmp_path / "file").open("w"), one, other:
        before = len(os.listdir("/proc/self/fd"))
        accept_only_at("127.0.0.2", port)
        assert len(os.listdir("/proc/self/fd")) == before
