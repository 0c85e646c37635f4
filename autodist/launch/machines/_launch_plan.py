"""The workers to start for a job: one command with its environment for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autodist import carriers
from autodist.carriers import WorkerPlace
from autodist.coordination import WorkerEnvironment
from autodist.errors import UsageError
from autodist.launch._base import Job, WorkerCommand
from autodist.launch.machines._machines import Position, machines_with_ranks, positions
from autodist.launch.machines._sites import Site
from autodist.resource_spec import Host

_SLOWEST_HEARTBEAT_S = 2.0
_FASTEST_HEARTBEAT_S = 0.1
_NO_BOUND_S = 7 * 86400.0  # a wait of the runtime has a bound; no wait is that long
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Rendezvous:
    """How the workers of a run find each other.

    Attributes:
        run_id: Identity of the run.
        token: The coordinator's secret.
        certificate: The coordinator's, in a run that encrypts; else empty.
    """

    run_id: str
    token: str = field(repr=False)
    certificate: str = field(default="", repr=False)


def plan_workers(job: Job, meeting: Rendezvous, sites: Sequence[Site]) -> list[WorkerCommand]:
    """Return the commands of all workers, by rank.

    Raises:
        UsageError: A variable of the environment is not a number.
    """
    placed = zip(job.spec.hosts, sites, positions(machines_with_ranks(job.spec)), strict=True)
    return [
        _command(job, host, site, rank, told=_told(job, meeting, rank, site, position))
        for rank, (host, site, position) in enumerate(placed)
    ]


def _told(job: Job, meeting: Rendezvous, rank: int, site: Site, position: Position) -> dict[str, str]:
    """Return the variables by which a worker knows itself, and those of carriers' libraries."""
    of_carriers = _of_carriers(rank, job.spec.world_size, site, position)
    return _environment(job, meeting, rank, site, position).to_environ() | of_carriers


def _environment(job: Job, meeting: Rendezvous, rank: int, site: Site, position: Position) -> WorkerEnvironment:
    """Return what a worker learns about itself; it reaches the launcher through its own machine's loopback."""
    return WorkerEnvironment(
        rank=rank,
        local_rank=position.local_rank,
        node_rank=position.node_rank,
        world_size=job.spec.world_size,
        local_world_size=position.local_world_size,
        master_addr=_HERE,
        master_port=site.master_port,
        address=site.address,
        run_id=meeting.run_id,
        run_dir=Path(site.run_dir),
        token=meeting.token,
        certificate=meeting.certificate,
        allow_open_ports=job.permission.opens_ports,
        spec_path=Path(site.spec_path),
        strategy=site.strategy,
        default_strategy=site.default_strategy or WorkerEnvironment.default_strategy,
        seed=job.seed,
        step_timeout_s=_step_timeout_s(job),
        start_timeout_s=job.start_timeout_s or _NO_BOUND_S,
        heartbeat_s=_heartbeat_s(job),
        attempt=job.attempt,
        left_out=job.left_out,
        dump_graphs=None if site.dump_graphs is None else Path(site.dump_graphs),
    )


def _of_carriers(rank: int, world_size: int, site: Site, position: Position) -> dict[str, str]:
    """Return what carriers' libraries learn about a worker's place."""
    place = WorkerPlace(
        rank=rank,
        world_size=world_size,
        node_rank=position.node_rank,
        local_rank=position.local_rank,
        local_world_size=position.local_world_size,
        cross_rank=position.cross_rank,
        cross_size=position.cross_size,
        interface=site.interface,
    )
    return {name: v for carrier in carriers.carriers() for name, v in carrier.place_variables(place).items()}


def _step_timeout_s(job: Job) -> float | None:
    """The job's bound, else the one in the environment, which the runtime's messages name."""
    given = {**os.environ, **job.env}.get("AUTODIST_STEP_TIMEOUT_S")
    if job.step_timeout_s is not None or not given:
        return job.step_timeout_s
    try:
        return float(given)
    except ValueError:
        message = f"the environment variable `AUTODIST_STEP_TIMEOUT_S` is `{given}`, it must be a number"
        raise UsageError(message, hint="give seconds: `AUTODIST_STEP_TIMEOUT_S=120`") from None


def _heartbeat_s(job: Job) -> float:
    """Seconds between a worker's reports, few enough for the shortest bound."""
    bounds_s = (job.start_timeout_s, job.stall_timeout_s, job.finish_timeout_s)
    wanted_s = (max(bound_s / 8, _FASTEST_HEARTBEAT_S) for bound_s in bounds_s if bound_s > 0)
    return min((_SLOWEST_HEARTBEAT_S, *wanted_s))


def _command(job: Job, host: Host, site: Site, rank: int, told: Mapping[str, str]) -> WorkerCommand:
    base = {**os.environ, **site.variables} if site.is_here else site.variables
    own = {**_defaults(base, job, site.threads), **site.shared_envs, **job.env, **dict(host.env), **_devices(host)}
    is_moved = site.is_here and host.directory is not None
    script = os.path.abspath(site.script) if is_moved else site.script
    return WorkerCommand(
        rank=rank,
        host=host.name,
        argv=(
            host.python or site.python,
            "-m",
            "autodist.worker",
            *job.program.words(script),
            *job.script_args,
        ),
        env={**site.variables, **own, **told},
        directory=host.directory or site.directory,
        brought=site.brought,
    )


def _defaults(base: Mapping[str, str], job: Job, threads: int) -> dict[str, str]:
    """Return what workers get unless the user has set it."""
    wanted = {
        "PYTHONUNBUFFERED": "1",  # lines reach the console when they are written, not when a buffer is full
        "TF_CPP_MIN_LOG_LEVEL": "2",  # without TensorFlow's account of the CPU, once per worker
        "PYTHONHASHSEED": str(job.seed or 0),  # sets have one order on all workers, which a vocabulary may come from
    }
    if threads:
        wanted["TF_NUM_INTRAOP_THREADS"] = str(threads)  # workers that share processors hinder each other by more
    for carrier in carriers.carriers():
        wanted |= carrier.default_variables(min(job.start_timeout_s or _NO_BOUND_S, _NO_BOUND_S))
    return {name: value for name, value in wanted.items() if name not in base}


def _devices(host: Host) -> dict[str, str]:
    """Let a worker see the GPUs of its host's entry and no other."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, host.gpus)) or "-1"}
