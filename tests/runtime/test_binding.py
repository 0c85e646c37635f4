"""TensorFlow's servers, bound to one address."""

import json
import socket
import subprocess
import sys

from autodist.runtime.session._binding import listens_everywhere
from autodist.transport._symbols import slots_of

SERVERS = """
import json, os, socket, sys
import tensorflow as tf
from autodist.runtime.session._binding import binding_to, listens_everywhere
from autodist.transport._symbols import slots_of

if os.getuid() == 0:
    os.setuid(65534)  # most people train without privileges

def free_port():
    with socket.create_server(("", 0)) as probe:
        return probe.getsockname()[1]

def reaches(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client:
        client.settimeout(5.0)
        return client.connect_ex((address, port)) == 0

def serve(address):
    port = free_port()
    cluster = tf.train.ClusterSpec({"worker": [f"[{address}]:{port}" if ":" in address else f"{address}:{port}"]})
    return port, lambda: tf.distribute.Server(cluster, job_name="worker", task_index=0)

def slots():
    return [(slot, ctypes.c_uint64.from_address(slot).value) for slot in slots_of("bind", "libtensorflow")]

import ctypes
before, seen = slots(), {}
for address in ("127.0.0.2", "::1", "all", "a name"):
    port, make = serve("localhost" if address in ("all", "a name") else address)
    if address == "all":
        server = make()
    else:
        with binding_to(address, port):
            server = make()
            other = socket.create_server(("", 0))
        other.close()
    seen[address] = [reaches(other, port) for other in ("127.0.0.1", "127.0.0.2", "::1")], listens_everywhere(port)
    if address == "127.0.0.2":
        with tf.Graph().as_default(), tf.compat.v1.Session(server.target) as session:
            seen["sum"] = float(session.run(tf.constant(1.0) + 2.0))
seen["slots"] = len(before), before == slots()
print(json.dumps(seen), flush=True)
os._exit(0)
"""


def test_servers_are_bound_to_the_address_that_is_wanted():
    done = subprocess.run([sys.executable, "-c", SERVERS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["127.0.0.2"] == [[False, True, False], False]
    assert seen["::1"] == [[False, False, True], False]
    assert seen["all"] == [[True, True, True], True], (
        "what TensorFlow does by itself; else this code has become needless"
    )
    assert seen["sum"] == 3.0
    assert seen["a name"] == seen["all"]
    assert seen["slots"] == [2, True], "all is as it was before"


def test_who_listens_everywhere():
    for address, family, expected in [
        ("", socket.AF_INET, True),
        ("::", socket.AF_INET6, True),
        ("127.0.0.1", socket.AF_INET, False),
        ("::1", socket.AF_INET6, False),
    ]:
        with socket.create_server((address, 0), family=family) as server:
            assert listens_everywhere(server.getsockname()[1]) is expected, address


def test_functions_and_libraries_that_are_not_there_have_no_slots():
    assert slots_of("no_such_function", "lib") == []
    assert slots_of("bind", "no_such_library") == []
