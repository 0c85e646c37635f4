"""Workers on emulated hosts that share this machine's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from autodist.launch import ClusterLauncher, Job, Launcher, RunObserver, SilentObserver
from autodist.remote import Channel, LocalTransport, Machine, Transport
from autodist.report import RunResult
from autodist.testing._emulated._cluster import EmulatedCluster

__all__ = ["EmulatedLauncher"]


@dataclass(frozen=True)
class EmulatedLauncher(Launcher):
    """Starts each worker on its emulated host; runs on the cluster's launching host."""

    observer: RunObserver = field(default_factory=SilentObserver)

    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end."""
        return ClusterLauncher(self.observer, _Inside(EmulatedCluster.current())).launch(job)


@final
class _Inside(Transport):
    """Starts programs with a host's network, without SSH."""

    def __init__(self, cluster: EmulatedCluster) -> None:
        self._cluster = cluster
        self._local = LocalTransport()

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program on a host."""
        names = {host.address: host.name for host in self._cluster.spec.hosts}
        return await self._local.open(machine, self._cluster.inside(names[machine.address], argv), timeout_s)

    async def close(self) -> None:
        """Nothing is open."""
