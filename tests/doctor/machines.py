"""Made-up machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.doctor import Examination, MachineFacts, MachineVisit
from autodist.doctor import _examination as parts
from autodist.remote import Machine, machines_of
from autodist.resource_spec import Processors, ResourceSpec

GIGABYTE = 10**9


def healthy(name: str, number: int, names: list[str]) -> MachineFacts:
    return MachineFacts(
        python="3.11.7",
        executable="/usr/bin/python3",
        host_name=name,
        packages={
            "autodist": "0.1.0",
            "tensorflow": "2.21.0",
            "keras": "3.15.1",
            "horovod": "0.28.1",
            "numpy": "2.4",
            "tcp": "0.1.0",
            "openssl": "3",
        },
        compiler="g++ 12.2.0",
        cores=8,
        installed_cores=8,
        processors=Processors(name, list(range(8)), 8.0),
        memory_bytes=32 * GIGABYTE,
        available_bytes=30 * GIGABYTE,
        gpus=(),
        disks={
            kind: parts.Disk(path, 50 * GIGABYTE, True)
            for kind, path in {"directory": "/home/me", "tmp": "/tmp", "shm": "/dev/shm"}.items()
        },
        free_ports=1.0,
        interfaces={"lo": ["127.0.0.1", "::1"], "eth0": [f"10.0.0.{number}", f"fe80::{number}"]},
        names={other: [f"10.0.0.{place}"] for place, other in enumerate(names, 1)},
        address=f"10.0.0.{number}",
        open_files=65536,
    )


def cluster(text: str = "nodes: [{address: a}, {address: b}]") -> Examination:
    """Machines that nothing is wrong with."""
    spec = ResourceSpec.from_yaml(text)
    machines = machines_of(spec)
    names = [machine.address for machine in machines]
    visits = tuple(
        MachineVisit(
            machine,
            tuple(spec.hosts[rank] for rank in ranks),
            facts=healthy(machine.address, number, names),
            unreached=dict.fromkeys((name for name in names if name != machine.address), ""),
        )
        for number, (machine, ranks) in enumerate(machines.items(), 1)
    )
    return Examination(spec, visits)


def changed(examination: Examination, name: str, **facts: Any) -> Examination:
    """One machine with other facts."""
    visits = (
        replace(visit, facts=replace(visit.facts, **facts)) if visit.name == name else visit
        for visit in examination.visits
    )
    return replace(examination, visits=tuple(visits))


def revisited(examination: Examination, name: str, **fields: Any) -> Examination:
    """One machine with another visit."""
    visits = (replace(visit, **fields) if visit.name == name else visit for visit in examination.visits)
    return replace(examination, visits=tuple(visits))


def machine(name: str) -> Machine:
    return Machine(name)
