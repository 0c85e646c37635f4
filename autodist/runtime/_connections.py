"""This process' connections to the other workers, by which the communicator ``tcp`` carries collectives."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from autodist.runtime._worker import Worker
from autodist.transport import Endpoint, connect, connected, disconnect, listening, reduction_shares, register

__all__ = ["PROCESS_CONNECTIONS"]


class _ProcessConnections:
    """Those that a process has; all scopes share them, and they live as long as the program."""

    def __init__(self) -> None:
        self._are_open = False

    def open(self, worker: Worker, rates: Sequence[float]) -> None:
        """Connect to all other workers, unless that was done before; all workers do so together.

        Args:
            worker: Who this process is.
            rates: What the links of the hosts carry, by rank: who has more sums more.

        Raises:
            LaunchError: Some worker can't be reached.
        """
        if self._are_open:
            return
        register()
        coordinator = worker.coordinator
        assert coordinator is not None, "only workers of a run are connected"
        here = worker.environment
        with contextlib.closing(listening(here.address)) as listener:
            own = Endpoint(here.address, listener.getsockname()[1])
            coordinator.put(f"tcp/{worker.rank}", json.dumps(asdict(own)).encode())
            others = [rank for rank in range(worker.world_size) if rank != worker.rank]
            endpoints = {
                rank: Endpoint(**json.loads(coordinator.get(f"tcp/{rank}", here.start_timeout_s))) for rank in others
            }
            found = connected(listener, worker.rank, endpoints, here.token.encode(), here.start_timeout_s)
        sockets = [found[rank].detach() if rank in found else -1 for rank in range(worker.world_size)]
        connect(worker.rank, sockets, reduction_shares(rates))
        worker.on_exit(disconnect)
        self._are_open = True


PROCESS_CONNECTIONS = _ProcessConnections()
