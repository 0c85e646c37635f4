"""What is to be started for a job: one command with its environment per worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autodist import strategies
from autodist.errors import LaunchError, UsageError
from autodist.launch._base import Job, WorkerCommand
from autodist.resource_spec import Host
from autodist.runtime import HorovodRendezvous, WorkerEnvironment

__all__ = ["Meeting", "Place", "plan_local_workers", "plan_workers", "strategy_argument"]

_SLOWEST_HEARTBEAT_S = 2.0
_FASTEST_HEARTBEAT_S = 0.1
_NO_BOUND_S = 7 * 86400.0  # a wait of the runtime has a bound; this one nobody meets


@dataclass(frozen=True)
class Meeting:
    """Where the workers of a run meet.

    Attributes:
        run_id: Identity of the run.
        run_dir: Its directory.
        spec_path: The resolved spec.
        address: Of the coordinator.
        port: Of the coordinator.
        token: Its secret.
        horovod: Where Horovod's own rendezvous is, if there is one.

    """

    run_id: str
    run_dir: Path
    spec_path: Path
    address: str = "127.0.0.1"
    port: int = 0
    token: str = field(default="", repr=False)
    horovod: HorovodRendezvous | None = None


def plan_local_workers(job: Job, meeting: Meeting, environ: Mapping[str, str] | None = None) -> list[WorkerCommand]:
    """Return the commands of all workers, by rank, for a job whose hosts are all this machine.

    Args:
        job: What to run.
        meeting: Where the workers meet.
        environ: What the workers' environments start from; by default this process'.

    Raises:
        LaunchError: A host is another machine.
        StrategyError: The strategy is unknown.

    """
    _check_local(job.spec.hosts)
    world_size = job.spec.world_size
    places = [Place(rank, world_size, 0, meeting.address) for rank in range(world_size)]
    return plan_workers(job, meeting, places, environ)


@dataclass(frozen=True)
class Place:
    """Where a worker is among the machines.

    Attributes:
        local_rank: The worker among those of its machine.
        local_world_size: How many these are.
        node_rank: The machine among all machines.
        address: Under which other workers reach it.
        machine: The machine's name, where Horovod is to see another one than the rendezvous's.
        interface: Its network interface for Horovod's Gloo.

    """

    local_rank: int
    local_world_size: int
    node_rank: int
    address: str
    machine: str | None = None
    interface: str = "lo"


def plan_workers(
    job: Job, meeting: Meeting, places: Sequence[Place], environ: Mapping[str, str] | None = None
) -> list[WorkerCommand]:
    """Return the commands of all workers, by rank, wherever they are.

    Args:
        job: What to run.
        meeting: Where the workers meet.
        places: Where each is.
        environ: What the workers' environments start from; by default this process'.

    """
    base = dict(os.environ if environ is None else environ)
    common = WorkerEnvironment(
        world_size=job.spec.world_size,
        master_addr=meeting.address,
        master_port=meeting.port,
        run_id=meeting.run_id,
        run_dir=meeting.run_dir,
        token=meeting.token,
        spec_path=meeting.spec_path,
        strategy=strategy_argument(job.strategy),
        seed=job.seed,
        step_timeout_s=_step_timeout_s(job, base),
        start_timeout_s=job.start_timeout_s or _NO_BOUND_S,
        heartbeat_s=_heartbeat_s(job),
        attempt=job.attempt,
        dump_graphs=None if job.dump_graphs is None else job.dump_graphs.absolute(),
        launcher_pid=os.getpid(),
        horovod=meeting.horovod,
    )
    return [
        _command(job, host, _placed(common, rank, place), base)
        for rank, (host, place) in enumerate(zip(job.spec.hosts, places, strict=True))
    ]


def _placed(common: WorkerEnvironment, rank: int, place: Place) -> WorkerEnvironment:
    horovod = common.horovod
    if horovod is not None and place.machine is not None:
        horovod = replace(horovod, host_name=place.machine, interface=place.interface)
    return replace(
        common,
        rank=rank,
        local_rank=place.local_rank,
        local_world_size=place.local_world_size,
        node_rank=place.node_rank,
        address=place.address,
        horovod=horovod,
    )


def _step_timeout_s(job: Job, environ: Mapping[str, str]) -> float | None:
    """The job's bound, else the one in the environment, which the runtime's messages name."""
    given = {**environ, **job.env}.get("AUTODIST_STEP_TIMEOUT_S")
    if job.step_timeout_s is not None or not given:
        return job.step_timeout_s
    try:
        return float(given)
    except ValueError:
        message = f"the environment variable `AUTODIST_STEP_TIMEOUT_S` is `{given}`, it must be a number"
        raise UsageError(message, hint="give seconds: `AUTODIST_STEP_TIMEOUT_S=120`") from None


def strategy_argument(strategy: str | None) -> str | None:
    """Return what workers get as the strategy: files by absolute path, all else as it is.

    Raises:
        StrategyError: It is neither a known builder with arguments that it takes nor a readable strategy.

    """
    if strategy is None:
        return None
    found = strategies.get(strategy)
    if isinstance(found, strategies.Manual):
        return str(Path(found.plan).resolve())
    return str(Path(strategy).resolve()) if isinstance(found, strategies.Strategy) else strategy


def _check_local(hosts: tuple[Host, ...]) -> None:
    remote = [host.name for host in hosts if not host.is_local]
    if remote:
        raise LaunchError(
            f"the hosts {', '.join(f'`{name}`' for name in remote)} are other machines, and workers can be started "
            "on this machine only: the SSH launcher is not there yet",
            hint="use `localhost` as address, or leave out `--spec` and give `--workers`",
        )


def _heartbeat_s(job: Job) -> float:
    """Often enough for the shortest bound."""
    bounds_s = (job.start_timeout_s, job.stall_timeout_s, job.finish_timeout_s)
    wanted_s = (max(bound_s / 8, _FASTEST_HEARTBEAT_S) for bound_s in bounds_s if bound_s > 0)
    return min((_SLOWEST_HEARTBEAT_S, *wanted_s))


def _command(job: Job, host: Host, environment: WorkerEnvironment, base: Mapping[str, str]) -> WorkerCommand:
    own = _defaults(base) | dict(job.env) | dict(host.env) | _devices(host) | environment.to_environ()
    argv = (host.python or sys.executable, "-m", "autodist.launch.worker", str(job.script), *job.script_args)
    return WorkerCommand(environment.rank, host.name, argv, {**base, **own}, tuple(own))


def _defaults(base: Mapping[str, str]) -> dict[str, str]:
    """Return what workers get unless the user has set it."""
    wanted = {
        "PYTHONUNBUFFERED": "1",  # lines reach the console when they are written, not when a buffer is full
        "TF_CPP_MIN_LOG_LEVEL": "2",  # without TensorFlow's account of the CPU, once per worker
        "HOROVOD_FUSION_THRESHOLD": "0",  # groups are fused already; to fuse them again costs copies and overlap
    }
    return {name: value for name, value in wanted.items() if name not in base}


def _devices(host: Host) -> dict[str, str]:
    """Let a worker see the GPUs of its host's entry and no other."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, host.gpus)) or "-1"}
