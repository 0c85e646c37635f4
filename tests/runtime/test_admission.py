"""Who reaches TensorFlow's servers of a run."""

import json
import os
import socket
import subprocess
import sys

import pytest

from autodist import tcp_table
from autodist.testing import EmulatedCluster
from autodist.transport import ips_of

GREETED = """
import socket, sys

def is_greeted(address, port):
    "Whether a server of TensorFlow says something, which it does first, or closes the connection."
    with socket.create_connection((address, port), 10.0) as client:
        client.settimeout(10.0)
        client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            return bool(client.recv(64))
        except ConnectionError:
            return False
"""
SERVER = (
    GREETED
    + """
import json, logging, os
import tensorflow as tf
from autodist.runtime.session._admission import admit_only
from autodist.runtime.session._binding import binding_to

logging.basicConfig()
address, friend = sys.argv[1:]
with socket.create_server(("", 0)) as probe:
    port = probe.getsockname()[1]
works = admit_only(port, [])
with binding_to(address, port):
    server = tf.distribute.Server(
        tf.train.ClusterSpec({"worker": [f"{address}:{port}"]}), job_name="worker", task_index=0
    )
own = is_greeted(address, port)
child = os.fork()
if child == 0:
    os.setuid(65534)
    os._exit(is_greeted(address, port))
other = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with tf.Graph().as_default(), tf.compat.v1.Session(server.target) as session:
    total = float(session.run(tf.constant(1.0) + 2.0))
print(json.dumps([works, own, other, total, port]), flush=True)
if sys.stdin.readline():
    admit_only(port, [friend])
    print("more", flush=True)
    sys.stdin.readline()
os._exit(0)
"""
)


@pytest.mark.emulated
def test_other_users_and_machines_are_turned_away_before_a_byte_is_read():
    with EmulatedCluster(2) as cluster:
        here, there = (host.address for host in cluster.spec.hosts)

        def is_greeted(port):
            tried = f"{GREETED}\nprint(is_greeted({here!r}, {port}))"
            done = subprocess.run(
                cluster.command("h2", [sys.executable, "-c", tried]), capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stderr
            return {"True": True, "False": False}[done.stdout.strip()]

        command = cluster.command("h1", [sys.executable, "-c", SERVER, here, there])
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            line = server.stdout.readline()
            assert line, server.stderr.read()
            works, own, other, total, port = json.loads(line)
            assert (works, own, other, total) == (True, True, 0, 3.0)
            assert not is_greeted(port)
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "more\n"
            assert is_greeted(port)
        finally:
            _, errors = server.communicate(timeout=60)
        assert "a stranger was turned away from TensorFlow's server: user 65534 of this machine" in errors
        assert f"{there}, which is not a machine of the cluster" in errors


def test_addresses_are_the_same_however_they_are_written():
    assert tcp_table._place("0100007F:1F90") == tcp_table._place("0000000000000000FFFF00000100007F:1F90")
    assert tcp_table.ip_of("::ffff:10.0.0.1") == tcp_table.ip_of("10.0.0.1")
    assert str(tcp_table.ip_of("fe80::1%eth0")) == "fe80::1"
    assert ips_of("10.0.0.7") == {"10.0.0.7"}
    assert ips_of("no such name") == set()


def test_who_has_left_before_the_connection_is_accepted_is_not_taken_for_root():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = listener.getsockname()
        with socket.create_connection(here) as client:
            end = client.getsockname()
            assert tcp_table.socket_at(end, here).user == os.geteuid()
            client.sendall(b"a whole request")
        assert tcp_table.socket_at(end, here).user is None
