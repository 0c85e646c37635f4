"""This process' connections to the other workers, by which the communicator ``tcp`` carries collectives."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import asdict

from autodist.errors import LaunchError
from autodist.resource_spec import ResourceSpec
from autodist.runtime._certificate import encrypted, make_certificate
from autodist.runtime._worker import Worker
from autodist.transport import (
    Connection,
    Endpoint,
    connect,
    connected,
    disconnect,
    is_coded,
    listening,
    reduction_shares,
    register,
)

__all__ = ["PROCESS_CONNECTIONS", "sockets_to_all"]


def _connected_to_all(worker: Worker, name: str) -> dict[int, Connection]:
    """A connection to each other worker, by rank; all workers do so together, and nothing listens afterwards.

    Args:
        worker: Who this process is.
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
    """The same for what Python itself sends: sockets, which encrypt in a run that is to be encrypted.

    Raises:
        LaunchError: Some worker can't be reached, or is none.

    """
    found = {other: connection.socket for other, connection in _connected_to_all(worker, name).items()}
    coordinator, here = worker.coordinator, worker.environment
    if not here.is_encrypted or coordinator is None:
        return found
    own = make_certificate()
    coordinator.put(f"{name}/certificate/{worker.rank}", own.text.encode())
    for other in sorted(found):  # all come to the lower pairs of ranks first, so that nobody waits for ever
        text = coordinator.get(f"{name}/certificate/{other}", here.start_timeout_s).decode()
        found[other].settimeout(here.start_timeout_s)
        try:
            found[other] = encrypted(found[other], own, text, is_calling=other < worker.rank)
        except OSError as error:
            raise LaunchError(
                f"worker {worker.rank} can't encrypt its connection to worker {other}: {error}",
                hint="somebody may stand between them and change what they send; else see the other worker's log",
            ) from error
        found[other].settimeout(None)
    return found


class _ProcessConnections:
    """Those that a process has; all scopes share them, and they live as long as the program."""

    def __init__(self) -> None:
        self._are_open = False

    def open(self, worker: Worker, spec: ResourceSpec) -> None:
        """Connect to all other workers, unless that was done before; all workers do so together.

        Args:
            worker: Who this process is.
            spec: The cluster: hosts sum as much as their links allow, and floats are encoded for slow ones.

        Raises:
            LaunchError: Some worker can't be reached.

        """
        if self._are_open:
            return
        register()
        found = _connected_to_all(worker, "tcp")
        here, ranks = worker.environment, range(worker.world_size)
        keys = [found[rank].key if rank in found else b"" for rank in ranks] if here.is_encrypted else None
        sockets = [found[rank].socket.detach() if rank in found else -1 for rank in ranks]
        shares = reduction_shares([host.bandwidth_gbps or 1.0 for host in spec.hosts])
        here_name = spec.hosts[worker.rank].name
        coding = [
            rank in found and is_coded(spec.link(here_name, host.name).bandwidth_gbps)
            for rank, host in enumerate(spec.hosts)
        ]
        connect(worker.rank, sockets, shares, coding, keys, here.start_timeout_s)
        worker.on_exit(disconnect)
        self._are_open = True


PROCESS_CONNECTIONS = _ProcessConnections()
