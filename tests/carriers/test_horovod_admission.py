"""Who reaches the ports at which Horovod's workers wait for each other."""

import json
import socket
import subprocess
import sys

import pytest

from autodist.carriers._packet_filter import hear_only

REACHED = """
import ctypes, json, logging, socket, sys
import horovod.tensorflow
from autodist.carriers._horovod_admission import _LISTEN, admit_to_horovod
from autodist.transport._symbols import slots_of

logging.basicConfig()

def reached(source, port):
    with socket.socket() as client:
        client.bind((source, 0))
        client.settimeout(0.5)
        return client.connect_ex(("127.0.0.1", port)) == 0

[slot] = slots_of("listen", "mpi_lib.")
found = []
for admitted in (None, ["127.0.0.5", "::1"], ["127.0.0.6"]):
    if admitted is not None:
        admit_to_horovod(admitted)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        called = _LISTEN(ctypes.c_uint64.from_address(slot).value)(listener.fileno(), 8)  # as Horovod calls it
        port = listener.getsockname()[1]
        found.append([called, *(reached(f"127.0.0.{number}", port) for number in (1, 5, 6))])
print(json.dumps(found))
"""


@pytest.mark.horovod
def test_horovod_listens_to_the_machines_of_the_cluster_alone():
    done = subprocess.run([sys.executable, "-c", REACHED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        [0, True, True, True],
        [0, False, True, False],
        [0, False, False, True],
    ]
    assert "Horovod's ports" not in done.stderr


def test_what_is_accepted_is_heard_to_the_end():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        hear_only(listener.fileno(), [f"10.0.{number // 250}.{number % 250}" for number in range(500)] + ["127.0.0.9"])
        listener.listen(8)
        with socket.socket() as friend, socket.socket() as stranger:
            stranger.settimeout(0.3)
            with pytest.raises(TimeoutError):
                stranger.connect(listener.getsockname())
            friend.bind(("127.0.0.9", 0))
            friend.connect(listener.getsockname())
            end, _ = listener.accept()
            with end:
                for sender, receiver in ((friend, end), (end, friend)):
                    sender.sendall(b"x" * 100_000)
                    assert receiver.recv(100_000, socket.MSG_WAITALL) == b"x" * 100_000


def test_addresses_of_ipv6():
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener:
        place = listener.getsockname()[:2]
        for admitted, is_heard in ((["::1"], True), (["::2", "127.0.0.1"], False), (["::2", "::1"], True), ([], False)):
            hear_only(listener.fileno(), admitted)
            with socket.socket(socket.AF_INET6) as client:
                client.settimeout(0.3)
                assert (client.connect_ex(place) == 0) is is_heard
