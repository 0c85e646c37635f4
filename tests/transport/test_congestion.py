"""Connections between workers go by losses, unless they are long or somebody has chosen another rule."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from autodist.congestion import rules_for, suit
from tests.transport.test_sockets import closing, connect_all

SYSTEM = Path("/proc/sys/net/ipv4")
IS_ROOT = os.geteuid() == 0
ALLOWED = SYSTEM.joinpath("tcp_allowed_congestion_control").read_text().split()
MAY_CHOOSE = SYSTEM.joinpath("tcp_available_congestion_control").read_text().split() if IS_ROOT else ALLOWED


def rule_of(connection):
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@pytest.fixture(params=MAY_CHOOSE)
def connected_by(request):
    """A connection within this machine by each rule that this user may choose, and the rule."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, request.param.encode())
        with socket.create_connection(listener.getsockname()) as caller, listener.accept()[0] as connection:
            caller.sendall(b"x")
            assert connection.recv(1) == b"x"
            assert rule_of(connection) == request.param
            yield connection, request.param


def test_what_paces_a_short_connection_gives_way_and_what_else_was_chosen_stays(connected_by):
    connection, rule = connected_by
    suit(connection)
    by_losses = "cubic" if "cubic" in MAY_CHOOSE else "reno"
    assert rule_of(connection) == (by_losses if rule.startswith("bbr") else rule)
    connection.sendall(b"y")


@pytest.mark.parametrize(
    ("rule", "round_trip_us", "wanted"),
    [
        (b"bbr", 0, (b"cubic", b"reno")),
        (b"bbr2", 1_000, (b"cubic", b"reno")),
        (b"bbr", 1_001, (b"cubic",)),
        (b"bbr", 5_000, (b"cubic",)),
        (b"bbr", 5_001, ()),
        (b"cubic", 100, ()),
        (b"dctcp", 100, ()),
        (b"", 100, ()),
    ],
)
def test_long_connections_keep_their_rule(rule, round_trip_us, wanted):
    assert rules_for(rule, round_trip_us) == wanted


PACED = """
import encodings.idna, os, socket, sys
sys.path.insert(0, sys.argv[1])
from autodist.congestion import suit
if os.geteuid() == 0:
    os.setuid(65534)
with socket.create_server(("127.0.0.1", 0)) as listener:
    with socket.create_connection(listener.getsockname()) as caller, listener.accept()[0] as connection:
        suit(connection)
        print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
"""


def test_a_user_who_may_choose_little_chooses_among_that():
    command = [sys.executable, "-c", PACED, str(Path(__file__).parents[2])]
    told = subprocess.run(command, text=True, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() in ALLOWED
    assert not told.stdout.startswith("bbr")


def test_workers_connections_do_not_pace():
    found = connect_all(3)
    with closing(found):
        rules = {rule_of(one.socket) for connections in found.values() for one in connections.values()}
    assert not any(rule.startswith("bbr") for rule in rules)


def test_where_the_system_lets_nobody_choose_connections_stay_as_they_are():
    one, other = socket.socketpair()  # no TCP, so the system knows no rule of it
    with one, other:
        suit(one)
        one.sendall(b"x")
        assert other.recv(1) == b"x"
