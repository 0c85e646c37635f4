"""TensorFlow servers in this process, by which the sessions of several workers see each other's devices."""

from __future__ import annotations

import contextlib
import functools
import socket
from typing import Any

from autodist.runtime.session import keep_orderings_in_session, number_requests_by_one_generator

MOST_WORKERS = 4
MOST_DEVICES = 2  # CPU devices of each


@functools.cache
def server_targets() -> tuple[str, ...]:
    """Where the sessions of workers connect to, by rank. The servers live as long as this process."""
    import tensorflow as tf

    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(MOST_WORKERS)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
    cluster = tf.train.ClusterSpec({"worker": addresses})
    assert number_requests_by_one_generator(), "else requests of several servers of a process get one number"
    servers = [tf.distribute.Server(cluster, task_index=k, config=session_config()) for k in range(MOST_WORKERS)]
    return tuple(server.target for server in servers)


def session_config() -> Any:
    """Settings of sessions and servers: the order of reads and updates stays as it is written."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(device_count={"CPU": MOST_DEVICES}, allow_soft_placement=True)
    keep_orderings_in_session(config)
    return config
