"""One of two workers that sum a tensor over and over, in blocks with and without encryption by turns.

Usage: encryption_worker.py RANK LISTENER PORT SIZE_MB PAIRS ROUNDS; rank 0 writes its times as JSON.
"""

import json
import socket
import sys
import time

import tensorflow as tf

from autodist.transport import Endpoint, connect, connected, disconnect, register

_TIMEOUT_S = 60.0


def main():
    rank, listener, port, size_mb, pairs, rounds = map(int, sys.argv[1:])
    register()
    found = {"plain": [], "encrypted": []}
    with socket.socket(fileno=listener) as here, tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(_sum(size_mb * 2**18), name="")
        with tf.compat.v1.Session(graph=graph) as session:
            for pair in range(pairs + 1):  # the first one warms up
                for way in ("plain", "encrypted") if pair % 2 else ("encrypted", "plain"):
                    _open(rank, here, port, way == "encrypted")
                    measured = _block(session, rounds)
                    disconnect()
                    found[way] += [measured] if pair else []
    if rank == 0:
        print(json.dumps(found))


def _open(rank, listener, port, is_encrypted):
    other = 1 - rank
    connection = connected(listener, rank, {other: Endpoint("127.0.0.1", port)}, b"secret", _TIMEOUT_S)[other]
    sockets, keys = [-1, -1], [b"", b""]
    sockets[other], keys[other] = connection.socket.detach(), connection.key
    connect(rank, sockets, [0.5, 0.5], [False, False], keys if is_encrypted else None)


def _sum(size):
    definition = tf.compat.v1.GraphDef()
    shape = definition.node.add(op="Const", name="shape")
    shape.attr["dtype"].type = tf.int32.as_datatype_enum
    shape.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([size]))
    value = definition.node.add(op="Const", name="value")
    value.attr["dtype"].type = tf.float32.as_datatype_enum
    value.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
    filled = definition.node.add(op="Fill", name="filled", input=["shape", "value"])
    filled.attr["T"].type = tf.float32.as_datatype_enum
    node = definition.node.add(op="AutodistAllReduce", name="sum", input=["filled"])
    node.attr["T"].type = tf.float32.as_datatype_enum
    node.attr["collective"].s = b"sum"
    return definition


def _block(session, rounds):
    session.run("sum")  # both have come
    began, worked = time.monotonic(), time.process_time()
    for _ in range(rounds):
        session.run("sum")
    return {"s": (time.monotonic() - began) / rounds, "cpu_s": (time.process_time() - worked) / rounds}


if __name__ == "__main__":
    main()
