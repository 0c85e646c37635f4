"""TensorFlow's end of a connection whose other end says of tensors what they can't be."""

import contextlib
import socket
import struct

import numpy as np
import tensorflow as tf

from autodist.transport import connect, disconnect, register

HEADER = struct.Struct("=QQQIIIHH")  # as in native/peer.h: key, offset, total, round, length, coded, kind, mark
SHAPE, TENSOR, MARK = 4, 5, 0xA0D1
UNTRUE = [
    ("more elements than TensorFlow counts", [2**62, 3, 0], tf.bool),
    ("more bytes than there can be", [2**61, 3], tf.float64),
    ("less than nothing", [-1, 0], tf.float32),
    ("no bytes of something", [3], tf.float32),
    ("what has no place", [0, 2**62, 3], tf.bool),
]


def key(name: str) -> int:
    """FNV-1a, as in native/ops.cc."""
    value = 14695981039346656037
    for letter in name.encode():
        value = ((value ^ letter) * 1099511628211) % 2**64
    return value


def message(name: str, kind: int, content: bytes) -> bytes:
    return HEADER.pack(key(name), 0, len(content), 0, len(content), 0, kind, MARK) + content


@contextlib.contextmanager
def other_end():
    """The socket of a process that is connected to this one."""
    own, other = socket.socketpair()
    connect(0, [-1, own.detach()], [0.5, 0.5], [False, False])
    with other:
        yield other
    disconnect()


def received(dtype: tf.DType):
    graph_def = tf.compat.v1.GraphDef()
    node = graph_def.node.add(op="AutodistReceive", name="tensor")
    node.attr["collective"].s = b"tensor"
    node.attr["T"].list.type.append(dtype.as_datatype_enum)
    node.attr["ranks"].list.i.append(1)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run("tensor:0")


def main():
    register()
    with other_end() as other:
        other.sendall(message("tensor", SHAPE, np.int64([2, 1]).tobytes()))
        other.sendall(message("tensor", TENSOR, np.float32([3, 4]).tobytes()))
        np.testing.assert_array_equal(received(tf.float32), [[3], [4]])
    for what, shape, dtype in UNTRUE:
        with other_end() as other:
            other.sendall(message("tensor", SHAPE, np.int64(shape).tobytes()) + message("tensor", TENSOR, b""))
            try:
                found = received(dtype)
            except (tf.errors.AbortedError, tf.errors.InternalError) as error:
                print(f"{what}: {error.message}")
            else:
                raise AssertionError(f"{what} was received: {found.shape}")
    print("all is as it should be")


if __name__ == "__main__":
    main()
