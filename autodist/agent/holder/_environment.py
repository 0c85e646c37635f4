"""The part of its agent's environment that a worker gets; runs on the machine."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["gpus_of_a_job", "of_another_run", "worker_environment"]

_NAMES = frozenset({
    "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",
    "AUTODIST_ADDRESS", "AUTODIST_ATTEMPT", "AUTODIST_CERTIFICATE", "AUTODIST_DEFAULT_STRATEGY",
    "AUTODIST_DUMP_GRAPHS", "AUTODIST_HEARTBEAT_S", "AUTODIST_LAUNCHER_PID", "AUTODIST_LEFT_OUT",
    "AUTODIST_RUN_DIR", "AUTODIST_RUN_ID", "AUTODIST_SCRATCH", "AUTODIST_SEED", "AUTODIST_SPEC",
    "AUTODIST_START_TIMEOUT_S", "AUTODIST_STRATEGY", "AUTODIST_TOKEN",
    "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_GLOO_IFACE", "HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS",
})  # fmt: skip
_GPUS, _SLURM = "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"
_PREFIXES = ("OMPI_COMM_WORLD_", "PMI_", "PMIX_")


def of_another_run(name: str) -> bool:
    """Whether a variable says which place a process has in a run; an agent's own place does not concern its workers.

    Example:
        >>> of_another_run("RANK"), of_another_run("PATH"), of_another_run("HOROVOD_LOG_LEVEL")
        (True, False, False)
    """
    return name in _NAMES or name.startswith(_PREFIXES)


def worker_environment(own: Mapping[str, str], over: Mapping[str, str], parent: int) -> dict[str, str]:
    """Return a worker's environment.

    Args:
        own: The agent's.
        over: What the launcher sets.
        parent: The agent's process id, as the worker sees it.
    """
    inherited = {name: value for name, value in own.items() if not of_another_run(name)}
    whole = inherited | dict(over) | {"AUTODIST_LAUNCHER_PID": str(parent)}
    if _GPUS in over and _GPUS in own and _SLURM in own:
        whole[_GPUS] = gpus_of_a_job(own[_GPUS], over[_GPUS])
    return whole


def gpus_of_a_job(given: str, wanted: str) -> str:
    """Return the GPUs that are meant when a scheduler gave some of a machine's GPUs to a job.

    The spec counts the job's GPUs from 0; where the scheduler does not hide the others, the machine's numbers differ.
    Numbers beyond those of the job are taken as the machine's own.

    Args:
        given: ``CUDA_VISIBLE_DEVICES`` as the scheduler has set it.
        wanted: The same as the spec means it.

    Example:
        >>> gpus_of_a_job("2,3", "0,1"), gpus_of_a_job("2,3", "2,3"), gpus_of_a_job("2,3", "-1")
        ('2,3', '2,3', '-1')
    """
    entries = given.split(",")
    places = [int(place) for place in wanted.split(",") if place.isdecimal()]
    if not places or max(places) >= len(entries):
        return wanted
    return ",".join(entries[place] for place in places)
