"""D: the cluster that a strategy is made for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import Device, Host, Link
from autodist.resource_spec._value_checks import did_you_mean, repeated


@dataclass(frozen=True)
class ResourceSpec:
    """D: the cluster that a strategy is made for.

    The hosts may be given in any order; the chief (the first, if none is marked) is put first and the others keep
    their order, so that a host's index is its worker's rank.

    Attributes:
        hosts: One per worker process, by rank.
        links: The links that differ from what :meth:`link` assumes.

    Raises:
        SpecError: No host, a name used twice, two chiefs, or a link to an unknown host or given twice.

    Example:
        >>> spec = ResourceSpec((Host("a", "a"), Host("b", "b", chief=True, gpus=(0, 1))))
        >>> spec.chief.name, spec.rank_of("a"), [device.name for device in spec.replicas]
        ('b', 1, ['b:GPU:0', 'b:GPU:1', 'a:CPU:0'])
    """

    hosts: tuple[Host, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", _chief_first(tuple(self.hosts)))
        object.__setattr__(self, "links", tuple(self.links))
        for name in repeated(host.name for host in self.hosts):
            raise SpecError(f"host `{name}` appears twice, names must be unique")
        for link in self.links:
            self.rank_of(link.a)
            self.rank_of(link.b)
        for pair in repeated(frozenset((link.a, link.b)) for link in self.links):
            raise SpecError("the link between `{}` and `{}` is given twice".format(*sorted(pair)))

    @property
    def world_size(self) -> int:
        """Number of worker processes, >= 1."""
        return len(self.hosts)

    @property
    def chief(self) -> Host:
        """The host of rank 0."""
        return self.hosts[0]

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices by rank, each host's CPU devices before its GPUs."""
        return tuple(device for host in self.hosts for device in host.cpu_devices + host.gpu_devices)

    @cached_property
    def replicas(self) -> tuple[Device, ...]:
        """The devices that hold a replica, by rank."""
        return tuple(device for host in self.hosts for device in host.replica_devices)

    def host(self, name: str) -> Host:
        """Return the host of this name.

        Raises:
            SpecError: There is none.
        """
        return self.hosts[self.rank_of(name)]

    def rank_of(self, host_name: str) -> int:
        """Return the rank of this host's worker, 0 for the chief.

        Raises:
            SpecError: There is no host of this name.
        """
        if host_name not in self._ranks:
            raise SpecError(f"no host `{host_name}` in the resource spec{did_you_mean(host_name, self._ranks)}")
        return self._ranks[host_name]

    def link(self, a: str, b: str) -> Link:
        """Return the link between two different hosts, the same for ``(a, b)`` and ``(b, a)``.

        Where the spec has none, it has the smaller bandwidth of the two hosts and a latency of 0.1 ms.

        Raises:
            SpecError: An unknown host, or twice the same.

        Example:
            >>> spec = ResourceSpec((Host("a", "a", bandwidth_gbps=10), Host("b", "b", bandwidth_gbps=25)))
            >>> spec.link("b", "a")
            Link(a='a', b='b', bandwidth_gbps=10, latency_ms=0.1)
        """
        explicit = self._links.get(frozenset((a, b)))
        if explicit is not None:
            return explicit
        first, second = (self.hosts[rank] for rank in sorted((self.rank_of(a), self.rank_of(b))))
        return Link(first.name, second.name, min(first.bandwidth_gbps, second.bandwidth_gbps))

    @cached_property
    def cores_shared_by(self) -> int:
        """How many hosts share the cores of one machine, at most; 1 where none do.

        Example:
            >>> ResourceSpec((Host("a", "a", cores_shared_by=2), Host("b", "b", cores_shared_by=2))).cores_shared_by
            2
        """
        return max(host.cores_shared_by for host in self.hosts)

    @cached_property
    def evenness(self) -> float:
        """Bandwidth of the slowest link between two hosts as a share of that of the fastest; 1 without any.

        Example:
            >>> hosts = (Host("a", "a"), Host("b", "b"), Host("c", "c", bandwidth_gbps=0.25))
            >>> ResourceSpec(hosts).evenness
            0.25
        """
        names = [host.name for host in self.hosts]
        rates = [self.link(a, b).bandwidth_gbps for a, b in itertools.combinations(names, 2)]
        return min(rates) / max(rates) if rates else 1.0

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {host.name: rank for rank, host in enumerate(self.hosts)}

    @cached_property
    def _links(self) -> dict[frozenset[str], Link]:
        return {frozenset((link.a, link.b)): link for link in self.links}

    def to_json(self) -> str:
        """Return one line of JSON, which :meth:`from_json` reads; workers get the spec in this form.

        Example:
            >>> spec = ResourceSpec.local(workers=2, cpus=1)
            >>> ResourceSpec.from_json(spec.to_json()) == spec
            True
        """
        from autodist.resource_spec._json import dump

        return dump(self.hosts, self.links)

    @classmethod
    def from_json(cls, text: str) -> ResourceSpec:
        """Return the spec that :meth:`to_json` wrote.

        Raises:
            SpecError: Not JSON, another schema version, or not a spec.
        """
        from autodist.resource_spec._json import load

        return load(text, cls)

    @classmethod
    def from_file(cls, path: str | Path) -> ResourceSpec:
        """Read a YAML file.

        Raises:
            SpecError: The file can't be read, or has mistakes; all of them are listed, with line and column.
        """
        from autodist.resource_spec._parse_yaml import read_file

        return cls(*read_file(path))

    @classmethod
    def from_yaml(cls, text: str, source: str = "<string>") -> ResourceSpec:
        """Read YAML text; the keys are described in ``docs/resource_spec.md``.

        Args:
            text: The document.
            source: What error messages call it.

        Raises:
            SpecError: The text has mistakes; all of them are listed, with line and column.

        Example:
            >>> spec = ResourceSpec.from_yaml("nodes: [{address: localhost, workers: 2}]")
            >>> [host.name for host in spec.hosts]
            ['localhost', 'localhost#1']
        """
        from autodist.resource_spec._parse_yaml import parse

        return cls(*parse(text, source))

    @classmethod
    def local(cls, workers: int = 1, cpus: int | None = None) -> ResourceSpec:
        """Describe this machine.

        Args:
            workers: Worker processes, >= 1. The GPUs are shared out among them.
            cpus: CPU devices of each worker, >= 1; no GPU is used then. ``None``: the GPUs if there are any, else one
                CPU device.

        Raises:
            SpecError: A number below 1, or fewer GPUs than workers.

        Example:
            >>> ResourceSpec.local(cpus=2).world_size
            1
        """
        from autodist.resource_spec._detect import local_hosts

        return cls(local_hosts(workers, cpus))


def _chief_first(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    chiefs = [host.name for host in hosts if host.chief]
    if not hosts:
        raise SpecError("the resource spec has no hosts, it needs at least 1")
    if len(chiefs) > 1:
        raise SpecError(f"the hosts {', '.join(chiefs)} are all marked as chief, exactly one can be")
    if not chiefs:
        return (replace(hosts[0], chief=True), *hosts[1:])
    return tuple(sorted(hosts, key=lambda host: not host.chief))
