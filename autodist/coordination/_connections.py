"""This process' connections to the other workers, each with proof of the run's secret."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import asdict

from autodist.coordination._certificate import encrypted, make_certificate
from autodist.coordination._worker import Worker
from autodist.errors import LaunchError
from autodist.transport import Connection, Endpoint, connected, listening


def connected_to_all(worker: Worker, name: str) -> dict[int, Connection]:
    """A connection to each other worker, by rank; all workers do so together, and nothing listens afterwards.

    Args:
        worker: This process.
        name: What tells these connections from others of the process.

    Raises:
        LaunchError: Some worker can't be reached.
    """
    coordinator = worker.coordinator
    assert coordinator is not None, "only workers of a run are connected"
    here = worker.environment
    with contextlib.closing(listening(here.address)) as listener:
        own = Endpoint(here.address, listener.getsockname()[1])
        coordinator.put(f"{name}/{worker.rank}", json.dumps(asdict(own)).encode())
        others = [rank for rank in range(worker.world_size) if rank != worker.rank]
        endpoints = {
            rank: Endpoint(**json.loads(coordinator.get(f"{name}/{rank}", here.start_timeout_s))) for rank in others
        }
        return connected(listener, worker.rank, endpoints, here.token.encode(), here.start_timeout_s)


def sockets_to_all(worker: Worker, name: str) -> dict[int, socket.socket]:
    """A socket to each other worker, by rank, for what Python itself sends; encrypted in a run that encrypts.

    Raises:
        LaunchError: Some worker can't be reached, or is not of the run.
    """
    found = {other: connection.socket for other, connection in connected_to_all(worker, name).items()}
    coordinator, here = worker.coordinator, worker.environment
    if not here.is_encrypted or coordinator is None:
        return found
    own = make_certificate()
    coordinator.put(f"{name}/certificate/{worker.rank}", own.text.encode())
    for other in sorted(found):  # all come to the lower pairs of ranks first, so that no worker waits for ever
        text = coordinator.get(f"{name}/certificate/{other}", here.start_timeout_s).decode()
        found[other].settimeout(here.start_timeout_s)
        try:
            found[other] = encrypted(found[other], own, text, is_calling=other < worker.rank)
        except OSError as error:
            raise LaunchError(
                f"worker {worker.rank} can't encrypt its connection to worker {other}: {error}",
                hint="somebody between them may change what they send; else see the other worker's log",
            ) from error
        found[other].settimeout(None)
    return found
