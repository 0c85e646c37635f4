"""This process' TensorFlow server, by which the workers' sessions see each other's devices."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

from autodist.coordination import SERVER_PORTS, Worker
from autodist.errors import LaunchError
from autodist.runtime.session._admission import admit_only
from autodist.runtime.session._binding import binding_to, listens_everywhere
from autodist.runtime.session._request_ids import number_requests_by_one_generator
from autodist.transport import ips_of, source_towards

_LOG = logging.getLogger("autodist")


class _ProcessServer:
    """The one server that a process can have; all scopes share it, and it lives as long as the process."""

    def __init__(self) -> None:
        self._server: Any = None

    def target(self, worker: Worker, config: Any) -> str:
        """The address that a session connects to; the first call starts the server and waits for the others'."""
        if self._server is None:
            self._server = _start(worker, config)
        return str(self._server.target)


PROCESS_SERVER = _ProcessServer()


def _start(worker: Worker, config: Any) -> Any:
    import tensorflow as tf

    coordinator = worker.coordinator
    assert coordinator is not None, "only workers of a run have servers"
    if not number_requests_by_one_generator():
        _LOG.warning(
            "TensorFlow's libraries are others than expected, and may give two requests the same number: trainings of "
            'ten thousands of steps may end with "The same RunGraph (Worker) request was received twice"; have them '
            "save checkpoints"
        )
    timeout_s = worker.environment.start_timeout_s
    with _reserved_port() as (port, release):
        coordinator.put(f"server/{worker.rank}", json.dumps([worker.environment.address, port]).encode())
        places = [json.loads(coordinator.get(f"server/{rank}", timeout_s)) for rank in range(worker.world_size)]
        admitted = _admit(worker, port, {address for address, _ in places})
        release()
        cluster = tf.train.ClusterSpec({"worker": [_joined(*place) for place in places]})
        with binding_to(worker.environment.address, port):
            server = tf.distribute.Server(cluster, job_name="worker", task_index=worker.rank, config=config)
    if not admitted:
        _LOG.warning(
            "TensorFlow's libraries are not the expected ones: its server on port %d serves anybody who connects, and "
            "runs code for them: keep the port behind a firewall",
            port,
        )
    if listens_everywhere(port):
        _LOG.warning(
            "TensorFlow's server on port %d accepts connections to all addresses of this machine, and anybody who "
            "connects can run code here: keep the port behind a firewall",
            port,
        )
    # A session whose peer has no open port yet fails with "connection refused", or hangs.
    coordinator.barrier("servers", timeout_s)
    return server


def _admit(worker: Worker, port: int, addresses: set[str]) -> bool:
    """Admit the other workers to the port, by the addresses from which they will connect."""
    coordinator, timeout_s = worker.coordinator, worker.environment.start_timeout_s
    assert coordinator is not None
    addresses = {ip for address in addresses for ip in ips_of(address)}
    sources = set()
    for address in addresses:
        with contextlib.suppress(OSError):  # its user reports what can't be reached
            sources.add(source_towards(address))
    coordinator.put(f"server/{worker.rank}/from", json.dumps(sorted(sources)).encode())
    others = (json.loads(coordinator.get(f"server/{rank}/from", timeout_s)) for rank in range(worker.world_size))
    return admit_only(port, addresses.union(*others))


def _joined(address: str, port: int) -> str:
    """An address with a port, as gRPC wants it."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@contextlib.contextmanager
def _reserved_port() -> Iterator[tuple[int, Callable[[], None]]]:
    """A free port that stays ours until it is released."""
    candidates = random.SystemRandom().sample(SERVER_PORTS, 200)
    for port in candidates:
        holder = socket.socket()
        try:
            holder.bind(("", port))  # no process can connect: it does not listen
        except OSError:
            holder.close()
            continue
        with contextlib.closing(holder):
            yield port, holder.close
        return
    raise LaunchError(f"no free port found among 200 tried between {SERVER_PORTS.start} and {SERVER_PORTS.stop}")
