"""Workers on emulated hosts that share this machine's files and processes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autodist.launch import Job, LocalLauncher, Meeting, Place, WorkerCommand, plan_workers
from autodist.testing._emulated._cluster import EmulatedCluster
from autodist.testing._emulated._network import HEAD, INTERFACE, address_of

__all__ = ["EmulatedLauncher"]


@dataclass(frozen=True)
class EmulatedLauncher(LocalLauncher):
    """Starts each worker on its emulated host; runs on the cluster's launching host."""

    address: str = address_of(HEAD)

    def commands(self, job: Job, meeting: Meeting) -> list[WorkerCommand]:
        """Return the workers' commands, each inside its host."""
        cluster = EmulatedCluster.current()
        hosts = job.spec.hosts
        places = [Place(0, 1, rank, host.address, host.name, INTERFACE) for rank, host in enumerate(hosts)]
        commands = plan_workers(job, meeting, places)
        return [replace(c, argv=cluster.inside(host.name, c.argv)) for c, host in zip(commands, hosts, strict=True)]

    def machines(self, job: Job) -> list[str]:
        """Return the hosts' names."""
        return [host.name for host in job.spec.hosts]
