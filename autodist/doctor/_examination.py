"""The facts that are known of a cluster's machines, as far as these could be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autodist.errors import AutoDistError
from autodist.remote import Machine
from autodist.resource_spec import Host, Processors, ResourceSpec

PORTS = range(20000, 32000)
"""The range from which workers' servers choose their ports."""


@dataclass(frozen=True)
class Disk:
    """A place to write to.

    Attributes:
        path: Its directory.
        free_bytes: What may still be written.
        is_writable: Whether we may write at all.
    """

    path: str
    free_bytes: int
    is_writable: bool


@dataclass(frozen=True)
class MachineFacts:
    """A machine's report about itself.

    Attributes:
        python: Version of the interpreter.
        executable: Its path.
        host_name: The machine's own name for itself.
        packages: Version by name, of those that are installed.
        compiler: The compiler of C++ with its version; empty if there is none.
        cores: Cores that may be used.
        installed_cores: Number of cores.
        processors: Which cores these are, and whether they are those of another machine of the spec.
        memory_bytes: Main memory that may be used.
        available_bytes: How much of it is free.
        gpus: CUDA ids.
        disks: By ``directory``, ``tmp`` and ``shm``.
        free_ports: Which part of :data:`PORTS` is free, 0 to 1.
        interfaces: Addresses by network interface.
        names: Addresses that each name of the spec has there, its own included.
        address: Address under which the others reach it; empty if it has only loopback addresses.
        open_files: How many files a process may have open; -1 for no limit.
    """

    python: str
    executable: str
    host_name: str
    packages: Mapping[str, str]
    compiler: str
    cores: float
    installed_cores: float
    processors: Processors
    memory_bytes: int
    available_bytes: int
    gpus: tuple[int, ...]
    disks: Mapping[str, Disk]
    free_ports: float
    interfaces: Mapping[str, Sequence[str]]
    names: Mapping[str, Sequence[str]]
    address: str
    open_files: int

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> MachineFacts:
        """Return what an agent's ``facts.gather`` has returned."""
        disks = {name: Disk(disk["path"], disk["free"], disk["is_writable"]) for name, disk in told["disks"].items()}
        same = (
            "python", "executable", "host_name", "packages", "compiler", "free_ports", "interfaces", "names", "address",
        )  # fmt: skip
        return cls(
            **{name: told[name] for name in same},
            cores=told["cores"]["usable"],
            installed_cores=told["cores"]["installed"],
            processors=Processors(**told["processors"]),
            memory_bytes=told["memory"]["total"],
            available_bytes=told["memory"]["available"],
            gpus=tuple(gpu["index"] for gpu in told["gpus"]),
            disks=disks,
            open_files=told["open_files"],
        )


@dataclass(frozen=True)
class MachineVisit:
    """One machine of a cluster.

    Attributes:
        machine: Where it is.
        hosts: The hosts of the spec that are on it.
        is_here: Whether it is the machine that asks.
        error: Why nothing is known of it.
        facts: What it reports about itself; None exactly if there is an error.
        clock_ahead_s: By how much its clock is ahead of ours.
        clock_error_s: How wrong that may be.
        unreached: By name of another machine that was tried, why a worker here can't connect to one there; empty if
            it can.
    """

    machine: Machine
    hosts: tuple[Host, ...]
    is_here: bool = False
    error: AutoDistError | None = None
    facts: MachineFacts | None = None
    clock_ahead_s: float = 0.0
    clock_error_s: float = 0.0
    unreached: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The machine's name in the spec."""
        return self.machine.address


@dataclass(frozen=True)
class Examination:
    """All machines of a cluster.

    Attributes:
        spec: The cluster.
        visits: One per machine, in the order of the ranks.
    """

    spec: ResourceSpec
    visits: tuple[MachineVisit, ...]

    @property
    def known(self) -> tuple[tuple[MachineVisit, MachineFacts], ...]:
        """The machines that something is known of."""
        return tuple((visit, visit.facts) for visit in self.visits if visit.facts is not None)
