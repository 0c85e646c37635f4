"""TensorFlow servers in this process, by which the sessions of several workers see each other's devices.

They run code for everybody that connects, so they listen on the loopback, and to this process' user alone.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Sequence
from typing import Any

from autodist.runtime.session import (
    admit_only,
    binding_to,
    keep_orderings_in_session,
    number_requests_by_one_generator,
)

_LOOPBACK = "127.0.0.1"
MOST_WORKERS = 4
MOST_DEVICES = 2  # CPU devices of each


@functools.cache
def server_targets() -> tuple[str, ...]:
    """Where the sessions of workers connect to, by rank. The servers live as long as this process."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(MOST_WORKERS)]
        for held in sockets:
            held.bind((_LOOPBACK, 0))
        ports = [held.getsockname()[1] for held in sockets]
    assert number_requests_by_one_generator(), "else requests of several servers of a process get one number"
    return tuple(_started(ports, rank) for rank in range(MOST_WORKERS))


def _started(ports: Sequence[int], rank: int) -> str:
    import tensorflow as tf

    cluster = tf.train.ClusterSpec({"worker": [f"{_LOOPBACK}:{port}" for port in ports]})
    admit_only(ports[rank], ())
    with binding_to(_LOOPBACK, ports[rank]):
        return str(tf.distribute.Server(cluster, task_index=rank, config=session_config()).target)


def session_config() -> Any:
    """Settings of sessions and servers: the order of reads and updates stays as it is written."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(device_count={"CPU": MOST_DEVICES}, allow_soft_placement=True)
    keep_orderings_in_session(config)
    return config
