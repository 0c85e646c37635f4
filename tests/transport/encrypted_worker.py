"""One of two processes that exchange a tensor over several connections: `encrypted_worker.py RANK NAME=SOCKET...`.

What stands between the ends of each is the business of who starts them.
"""

import sys

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import LaunchError
from autodist.transport import connect, disconnect, register
from tests.transport.worker import run

SECRET = b"what nobody else may read, "
KEY = bytes(range(32))
ROUNDS = 20


def exchange(rank):
    """Each sends the other a tensor whose bytes say what they are."""
    value = np.frombuffer(SECRET * 8_000, np.uint8).view(np.int32)
    ops = [("AutodistAllGather", "gathered", {})]
    (found,) = run(ops, {"gathered": value})
    np.testing.assert_array_equal(found, np.concatenate([value, value]))


def exchange_until_lost(rank):
    for _ in range(ROUNDS):
        exchange(rank)


def opened(rank, socket, key):
    sockets, keys = [-1, -1], [b"", b""]
    sockets[1 - rank], keys[1 - rank] = socket, key
    connect(rank, sockets, [0.5, 0.5], [False, False], None if key is None else keys, 20.0)


def main():
    rank, *named = sys.argv[1:]
    rank = int(rank)
    sockets = {name: int(number) for name, _, number in (one.partition("=") for one in named)}
    register()
    for name, key in (("plain", None), ("encrypted", KEY)):
        opened(rank, sockets[name], key)
        exchange(rank)
        disconnect()
    with pytest.raises(
        LaunchError, match=rf"worker {rank} can't encrypt its connection to worker {1 - rank}: "
    ) as told:
        opened(rank, sockets["another key"], bytes([rank]) * 32)
    print(told.value.message, flush=True)
    opened(rank, sockets["changed"], KEY)
    with pytest.raises(tf.errors.AbortedError, match=rf"worker {1 - rank} is lost: ") as lost:
        exchange_until_lost(rank)
    print(lost.value.message)
    print("all is as it should be", flush=True)


if __name__ == "__main__":
    main()
