"""Workers that compute on the same processors: how many they are, and how many threads each of them should have.

TensorFlow starts one thread for each processor that it sees. Several workers on the same processors then have more
threads than these can run, and parts of one operation wait for each other: on two cores, steps of four workers took
1.2 to 1.5 times as long as with a thread for each. Nor does TensorFlow see the quotas of control groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autodist.resource_spec._hosts_and_links import Host
from autodist.resource_spec._model import ResourceSpec


@dataclass(frozen=True)
class Processors:
    """The processors that the workers of one machine of a spec may compute on.

    Attributes:
        kernel: The same for all machines of a spec that are containers of one machine; empty if not known.
        numbers: Which ones.
        usable: How many of them at the same time: a control group may allow fewer.
    """

    kernel: str
    numbers: Sequence[int]
    usable: float


@dataclass(frozen=True)
class CoresOfWorkers:
    """The share of processors that each worker has.

    Attributes:
        shared_by: By rank, how many workers compute on the same processors; as the spec says for workers with GPUs.
        threads: By rank, how many threads an operation should have; 0 where TensorFlow chooses well by itself.
    """

    shared_by: tuple[int, ...]
    threads: tuple[int, ...]

    def described(self, spec: ResourceSpec) -> ResourceSpec:
        """Return a spec that says which hosts share processors."""
        hosts = (replace(host, cores_shared_by=n) for host, n in zip(spec.hosts, self.shared_by, strict=True))
        return replace(spec, hosts=tuple(hosts))


def cores_of_workers(hosts: Sequence[Host], found: Mapping[tuple[int, ...], Processors]) -> CoresOfWorkers:
    """Return which workers share processors.

    Args:
        hosts: The hosts of the spec.
        found: The processors of each machine, by the ranks of its workers.

    Example:
        >>> hosts = [Host(name, name) for name in "abc"]
        >>> containers = {(rank,): Processors("kernel", [0, 1], 2.0) for rank in range(3)}
        >>> cores_of_workers(hosts, containers)
        CoresOfWorkers(shared_by=(3, 3, 3), threads=(1, 1, 1))
    """
    shared_by, threads = [host.cores_shared_by for host in hosts], [0] * len(hosts)
    for machines in _by_kernel(found):
        between = _shared_between(hosts, machines)
        for ranks, processors in machines.items():
            computing = _computing(hosts, ranks)
            for rank in computing:
                # Workers of one machine share its quota as well, however many processors there are.
                shared_by[rank] = max(len(computing), between, hosts[rank].cores_shared_by)
                wanted = max(1, math.ceil(processors.usable / shared_by[rank]))
                threads[rank] = wanted if wanted < len(processors.numbers) else 0
    return CoresOfWorkers(tuple(shared_by), tuple(threads))


def _by_kernel(found: Mapping[tuple[int, ...], Processors]) -> list[dict[tuple[int, ...], Processors]]:
    groups: dict[object, dict[tuple[int, ...], Processors]] = {}
    for ranks, processors in found.items():
        groups.setdefault(processors.kernel or ranks, {})[ranks] = processors
    return list(groups.values())


def _shared_between(hosts: Sequence[Host], machines: Mapping[tuple[int, ...], Processors]) -> int:
    """The cores that all workers of one kernel may use together, as a multiple of those that there are."""
    wanted, there = 0.0, set[int]()
    for ranks, processors in machines.items():
        computing = _computing(hosts, ranks)
        wanted += len(computing) * processors.usable
        there |= set(processors.numbers) if computing else set()
    return round(wanted / len(there)) if there else 1


def _computing(hosts: Sequence[Host], ranks: Sequence[int]) -> list[int]:
    """The workers that compute on processors."""
    return [rank for rank in ranks if not hosts[rank].gpus]
