"""The knowledge of one machine's workers about it: where they meet, and where their files are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autodist.coordination import CODE
from autodist.launch._base import Job
from autodist.launch._forwarded_environment import forwarded_environment
from autodist.launch.machines._bundle import Bundle
from autodist.launch.machines._machines import is_here, machines_with_ranks
from autodist.launch.machines._strategy_argument import file_of_strategy, strategy_argument
from autodist.launch.run_files import RunDirectory
from autodist.remote import Machine

__all__ = [
    "GRAPHS",
    "INPUT",
    "OUTPUT",
    "SPEC",
    "Site",
    "expected_sites",
    "local_site",
    "remote_site",
    "strategy_file",
]

INPUT, OUTPUT, GRAPHS = "input", "output", "graphs"
"""Folders of the run's directory on another machine."""

SPEC = "spec.json"


@dataclass(frozen=True)
class Site:
    """A machine as a run uses it; all paths are the machine's own.

    Attributes:
        address: Address under which the workers of other machines reach those of this one.
        interface: The network interface that has it.
        python: The interpreter for hosts that name none.
        script: The script.
        directory: Working directory of hosts that name none.
        run_dir: Where workers put what belongs to the run.
        spec_path: The resolved spec.
        strategy: What workers get as the strategy.
        default_strategy: The same for scripts that name none.
        dump_graphs: Where graphs go.
        master_port: Port of the coordinator, on the machine's loopback.
        variables: What its workers' environments have before those of the job, over the machine's own.
        shared_envs: Variables of the login, expanded.
        brought: Files that were sent there.
        is_here: Whether it is this machine.
        threads: How many threads a worker's operation should have; 0 where TensorFlow chooses well by itself.
    """

    address: str
    interface: str
    python: str
    script: str
    directory: str
    run_dir: str
    spec_path: str
    strategy: str | None
    default_strategy: str | None
    dump_graphs: str | None
    master_port: int = 0
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    shared_envs: Mapping[str, str] = field(default_factory=dict, repr=False)
    brought: tuple[str, ...] = ()
    is_here: bool = False
    threads: int = 0


def local_site(job: Job, directory: RunDirectory, address: str = "127.0.0.1", interface: str = "lo") -> Site:
    """Return this machine: everything stays where it is."""
    return Site(
        address=address,
        interface=interface,
        python=sys.executable,
        script=str(job.program.file),
        directory=os.getcwd(),
        run_dir=str(directory.path),
        spec_path=str(directory.spec),
        strategy=strategy_argument(job.strategy),
        default_strategy=strategy_argument(job.default_strategy),
        dump_graphs=None if job.dump_graphs is None else str(job.dump_graphs.absolute()),
        is_here=True,
    )


def remote_site(
    job: Job,
    machine: Machine,
    root: str,
    *,
    script: str,
    python: str | None = None,
    address: str | None = None,
    interface: str = "",
    brought: tuple[str, ...] = (),
    shared_envs: Mapping[str, str] | None = None,
) -> Site:
    """Return another machine.

    Args:
        job: What is to be run.
        machine: The machine.
        root: Path of the run's directory there.
        script: Path of the script there.
        python: Path of its interpreter.
        address: Address under which others reach it.
        interface: The network interface that has it.
        brought: What was sent there.
        shared_envs: Variables of the login, expanded.
    """
    file = strategy_file(job)
    place = None if file is None else f"{root}/{INPUT}/{file.name}"
    return Site(
        address=machine.address if address is None else address,
        interface=interface,
        python=python or machine.interpreter,
        script=script,
        directory=os.getcwd(),
        run_dir=f"{root}/{OUTPUT}",
        spec_path=f"{root}/{OUTPUT}/{SPEC}",
        strategy=strategy_argument(job.strategy, place),
        default_strategy=strategy_argument(job.default_strategy, None if job.strategy else place),
        dump_graphs=None if job.dump_graphs is None else f"{root}/{GRAPHS}",
        variables=forwarded_environment(),
        shared_envs=dict(machine.ssh.shared_envs if machine.ssh else ()) if shared_envs is None else shared_envs,
        brought=brought,
    )


def strategy_file(job: Job) -> Path | None:
    """Return the file that the strategy is in, or that its builder reads, if there is one."""
    file = file_of_strategy(job.strategy or job.default_strategy)
    return file if file is not None and file.is_file() else None


def expected_sites(job: Job, directory: RunDirectory) -> list[Site]:
    """Return where each worker will be, by rank, as far as this is known without asking the machines."""
    found: dict[int, Site] = {}
    machines = machines_with_ranks(job.spec)
    files = () if all(map(is_here, machines)) else Bundle.of(job.program, job.bring).files
    for machine, ranks in machines.items():
        if is_here(machine):
            is_alone = len(machines) == 1
            site = local_site(job, directory, **({} if is_alone else {"address": job.spec.hosts[ranks[0]].address}))
        else:
            brought = tuple(map(str, files))
            site = remote_site(job, machine, "<run>", script=f"<run>/{CODE}/{files[0]}", brought=brought)
        found |= dict.fromkeys(ranks, site)
    return [found[rank] for rank in sorted(found)]
