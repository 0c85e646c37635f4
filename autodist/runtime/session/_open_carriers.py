"""Opens carriers: connects this process to the other workers by what a strategy uses, once for each carrier."""

from __future__ import annotations

from collections.abc import Callable

from autodist import carriers
from autodist.coordination import CoordinatorClient, Worker, connected_to_all
from autodist.resource_spec import ResourceSpec
from autodist.transport import Connection

_OPENED: set[str] = set()
"""By this process; all scopes share them, and they live as long as the program."""


class WorkerProcess:
    """A worker, as carriers see it.

    Args:
        worker: This process.
        spec: The cluster; None where carriers need not know its links.
    """

    def __init__(self, worker: Worker, spec: ResourceSpec | None = None) -> None:
        here, hosts = worker.environment, () if spec is None else spec.hosts
        self._worker = worker
        self.rank, self.world_size = worker.rank, worker.world_size
        self.bandwidths_gbps = tuple(host.bandwidth_gbps or 1.0 for host in hosts)
        own = hosts[worker.rank].name if hosts else ""
        self.links_gbps = tuple(
            0.0 if spec is None or host.name == own else spec.link(own, host.name).bandwidth_gbps for host in hosts
        )
        self.address, self.node_rank = here.address, here.node_rank
        self.is_on_one_machine = here.local_world_size == here.world_size
        self.is_encrypted = here.is_encrypted
        self.timeout_s = here.start_timeout_s

    def put(self, key: str, value: bytes) -> None:
        """See :class:`~autodist.carriers.Process`."""
        self._coordinator.put(key, value)

    def get(self, key: str) -> bytes:
        """See :class:`~autodist.carriers.Process`."""
        return self._coordinator.get(key, self.timeout_s)

    def barrier(self, name: str) -> None:
        """See :class:`~autodist.carriers.Process`."""
        self._coordinator.barrier(name, self.timeout_s)

    def connections(self, name: str) -> dict[int, Connection]:
        """See :class:`~autodist.carriers.Process`."""
        return connected_to_all(self._worker, name)

    def on_exit(self, callback: Callable[[], None]) -> None:
        """See :class:`~autodist.carriers.Process`."""
        self._worker.on_exit(callback)

    @property
    def _coordinator(self) -> CoordinatorClient:
        assert self._worker.coordinator is not None, "only workers of a run are connected"
        return self._worker.coordinator


def open_carriers(names: tuple[str, ...], worker: Worker, spec: ResourceSpec) -> None:
    """Open carriers, except those that are open; all workers do so together.

    Raises:
        LaunchError: Some worker can't be reached.
    """
    for name in names if worker.world_size > 1 else ():
        if name not in _OPENED:
            carriers.get(name).open(WorkerProcess(worker, spec))
            _OPENED.add(name)
