"""A worker's place among all, and the names of devices in TensorFlow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autodist.carriers import CollectivePlace
from autodist.resource_spec import Device, ResourceSpec
from autodist.strategies import Strategy

_TASK = re.compile(r"/job:worker/replica:0/task:(\d+)/")


@dataclass(frozen=True)
class Layout:
    """This worker among all, and how devices of the strategy are called in TensorFlow.

    Attributes:
        rank: This worker, 0 is the chief.
        hosts: Names of all hosts, in rank order; one worker each.
        replicas: Per rank, the devices that hold a copy of the graph; none for a host that only serves variables.
        server: Whether this worker's session is one of a TensorFlow server, which TensorFlow's collectives need.
            These servers do nothing else: no worker runs nodes on the device of another.
        groups: Into how many groups replicas fall, one after the other, each of which has all parts of tiled
            variables. Between groups the batch is cut, as it is between replicas otherwise.
        first_rank: Where this is the layout of one group, the worker that is its first, among all.
    """

    rank: int
    hosts: tuple[str, ...]
    replicas: tuple[tuple[Device, ...], ...]
    server: bool
    groups: int = 1
    first_rank: int = 0

    @classmethod
    def of(cls, strategy: Strategy, spec: ResourceSpec, rank: int, *, server: bool) -> Layout:
        """The layout of a strategy on a cluster, seen from one worker."""
        hosts = tuple(host.name for host in spec.hosts)
        devices = [Device.parse(name) for name in strategy.graph.replicas]
        replicas = tuple(tuple(d for d in devices if d.host == host) for host in hosts)
        return cls(rank, hosts, replicas, server, strategy.groups_of_replicas)

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return len(self.hosts)

    @property
    def is_alone(self) -> bool:
        """Whether there is one replica and no other worker: nothing meets anything."""
        return self.world_size == 1 and self.num_replicas == 1

    @property
    def is_idle(self) -> bool:
        """Whether this worker has no share of any batch, but serves variables."""
        return not self.replicas[self.rank]

    @property
    def local_replicas(self) -> tuple[Device, ...]:
        """The copies of the graph on this worker; an idle worker has one that gets no examples."""
        return self.copies(self.rank)

    @property
    def senders(self) -> tuple[int, ...]:
        """The workers that have gradients."""
        return tuple(rank for rank, devices in enumerate(self.replicas) if devices)

    @property
    def num_replicas(self) -> int:
        """Number of replicas on all workers."""
        return sum(len(devices) for devices in self.replicas)

    @property
    def first_replica(self) -> int:
        """Global number of this worker's first replica."""
        return sum(len(devices) for devices in self.replicas[: self.rank])

    def copies(self, rank: int) -> tuple[Device, ...]:
        """The copies of the graph on a worker."""
        return self.replicas[rank] or (Device(self.hosts[rank], "CPU", 0),)

    def rank_of(self, device: str) -> int:
        """The worker that a device belongs to."""
        return self.hosts.index(Device.parse(device).host)

    def tf_device(self, device: str | Device) -> str:
        """TensorFlow's full name of a device of the strategy."""
        parsed = Device.parse(device) if isinstance(device, str) else device
        rank = self.hosts.index(parsed.host)
        job, task = ("worker", self.first_rank + rank) if self.server or rank != self.rank else ("localhost", 0)
        return f"/job:{job}/replica:0/task:{task}/device:{parsed.kind}:{parsed.index}"

    def at_home(self, device: str, rank: int) -> str:
        """A worker's own name for one of its devices, given the name by :meth:`tf_device` that others use."""
        own = "/job:localhost/replica:0/task:0/"
        return device if self.server else device.replace(f"/job:worker/replica:0/task:{rank}/", own)

    def rank_of_tf(self, device: str) -> int:
        """The worker that a device of :meth:`tf_device` belongs to."""
        found = _TASK.match(device)
        return int(found[1]) - self.first_rank if found else self.rank

    def main_device_of(self, rank: int) -> str:
        """The device on which a worker keeps its own copies of variables and runs the nodes that it runs once."""
        return self.tf_device(self.copies(rank)[0])

    @property
    def main_device(self) -> str:
        """The main device of this worker."""
        return self.main_device_of(self.rank)

    def replica_device(self, replica: int) -> str:
        """TensorFlow's name of the device of a local replica."""
        return self.tf_device(self.local_replicas[replica])

    def place(self, step: str, members: tuple[int, ...] | None = None) -> CollectivePlace:
        """Where collectives of a compiled step, of all workers or of some, are added on this worker."""
        return CollectivePlace(self.rank, self.world_size, step, members)

    # Groups of replicas ----------------------------------------------------------------------------------------------

    @property
    def group(self) -> int:
        """The group of this worker's replicas."""
        return self.first_replica * self.groups // max(1, self.num_replicas)

    @property
    def members(self) -> tuple[int, ...]:
        """The workers of this worker's group."""
        size = self.world_size // self.groups
        return tuple(range(self.group * size, (self.group + 1) * size))

    @property
    def peers(self) -> tuple[int, ...]:
        """The workers, one of each group, that have the parts of tiled variables that this one has."""
        size = self.world_size // self.groups
        return tuple(range(self.rank % size, self.world_size, size))

    @property
    def within(self) -> Layout:
        """The layout of this worker's group, as if there were no other one."""
        first, behind = self.members[0], self.members[-1] + 1
        hosts, replicas = self.hosts[first:behind], self.replicas[first:behind]
        return Layout(self.rank - first, hosts, replicas, self.server, first_rank=self.first_rank + first)
