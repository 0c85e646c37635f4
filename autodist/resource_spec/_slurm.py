"""The allocation of a Slurm job, from the variables that Slurm sets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autodist.errors import SpecError
from autodist.resource_spec._entries import Entry, Mistakes, spec_of
from autodist.resource_spec._hosts_option import split_hosts
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._ranges import MAX_HOSTS, expand_host_range

_NODES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_GPUS = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
_GPU_IDS = "SLURM_JOB_GPUS"
_TASKS = "SLURM_TASKS_PER_NODE"
_CPUS = "SLURM_JOB_CPUS_PER_NODE"
_MEMORY_OF_NODE, _MEMORY_OF_CPU = "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU"

_RUN = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_BYTES_PER_MB = 2**20  # Slurm's megabytes


def is_in_slurm(environ: Mapping[str, str]) -> bool:
    """Whether these are the variables of a process in a Slurm allocation.

    Example:
        >>> is_in_slurm({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-4]"}), is_in_slurm({})
        (True, False)
    """
    return bool(environ.get("SLURM_JOB_ID")) and any(environ.get(name) for name in _NODES)


def read_slurm(environ: Mapping[str, str]) -> ResourceSpec:
    """Return the allocation: one worker process on each node, with the GPUs of the job there.

    Without GPUs a worker has as many CPU devices as the job has tasks on its node. GPUs are counted from 0 among those
    that Slurm gave to the job, the same number on each node. The chief is on the first node.

    Args:
        environ: The variables, those of ``os.environ`` for example.

    Raises:
        SpecError: No allocation, or variables that contradict each other; all mistakes are listed.

    Example:
        >>> spec = read_slurm({
        ...     "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[01-02],login", "SLURM_TASKS_PER_NODE": "2(x2),1",
        ... })
        >>> [(host.name, host.cpus) for host in spec.hosts]
        [('node01', 2), ('node02', 2), ('login', 1)]
    """
    if not is_in_slurm(environ):
        raise SpecError(
            "this is not a Slurm allocation: `SLURM_JOB_ID` or `SLURM_JOB_NODELIST` is not set",
            hint="get one by `salloc --nodes=2`, or write the command into a script for `sbatch`",
        )
    mistakes = Mistakes(f"Slurm job {environ['SLURM_JOB_ID']}")
    _refuse_many_tasks(environ, mistakes)
    nodes = _nodes(environ, mistakes)
    gpus = _gpus(environ, mistakes)
    tasks = _per_node(environ, _TASKS, len(nodes), mistakes)
    memory = _memory_gb(environ, len(nodes), mistakes)
    entries = [
        Entry((node,), gpus or num_tasks or 1, "GPU" if gpus else "CPU", memory_gb=memory_gb)
        for node, num_tasks, memory_gb in zip(nodes, tasks, memory, strict=True)
    ]
    return spec_of(entries, "CPU", mistakes) if entries else _fail(mistakes)


def _fail(mistakes: Mistakes) -> ResourceSpec:
    mistakes.check()
    raise SpecError("the Slurm allocation has no nodes")


def _refuse_many_tasks(environ: Mapping[str, str], mistakes: Mistakes) -> None:
    """Refuse several tasks under ``srun``, each of which would launch all workers."""
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "1")
    if "SLURM_PROCID" in environ and tasks != "1":
        remedy = "start it once, in the script of `sbatch` or the shell of `salloc`, without `srun`"
        mistakes.add(f"`srun` started {tasks} of this command, each would start all workers; {remedy}")


def _nodes(environ: Mapping[str, str], mistakes: Mistakes) -> list[str]:
    name = next(name for name in _NODES if environ.get(name))
    nodes: list[str] = []
    for part in split_hosts(environ[name]):
        try:
            nodes += expand_host_range(part)
        except SpecError as error:
            mistakes.add(f"`{name}`: {error.message}")
    return nodes


def _gpus(environ: Mapping[str, str], mistakes: Mistakes) -> int:
    """Return the number of GPUs of the job on each node."""
    for name in _GPUS:
        if value := environ.get(name):
            # Types may be named, as in `a100:2,v100:1`.
            numbers = [part.rpartition(":")[2] for part in value.split(",")]
            if all(re.fullmatch("[0-9]{1,4}", number) for number in numbers):
                return sum(map(int, numbers))
            mistakes.add(f"`{name}` is `{value}`, expected a number of GPUs")
    ids = environ.get(_GPU_IDS, "")
    try:
        return len(expand_host_range(f"[{ids}]")) if ids else 0
    except SpecError:
        mistakes.add(f"`{_GPU_IDS}` is `{ids}`, expected ids of GPUs such as `0,1` or `0-3`")
        return 0


def _per_node(environ: Mapping[str, str], name: str, num_nodes: int, mistakes: Mistakes) -> list[int | None]:
    """Return what a variable such as ``2(x3),1`` says for each node."""
    value = environ.get(name)
    if not value:
        return [None] * num_nodes
    found: list[int | None] = []
    for part in value.split(","):
        match = _RUN.fullmatch(part)
        if match is None:
            mistakes.add(f"`{name}` is `{value}`, expected numbers such as `2(x3),1`")
            return [None] * num_nodes
        found += [int(match[1])] * min(int(match[2] or 1), MAX_HOSTS + 1)
    if len(found) != num_nodes:
        mistakes.add(f"`{name}` is `{value}`, which are {len(found)} nodes, but the job has {num_nodes}")
        return [None] * num_nodes
    return found


def _memory_gb(environ: Mapping[str, str], num_nodes: int, mistakes: Mistakes) -> list[float | None]:
    """Return the memory of the job on each node; 0 means all of the node's, and that is not known here."""
    whole, each = environ.get(_MEMORY_OF_NODE, ""), environ.get(_MEMORY_OF_CPU, "")
    if re.fullmatch("[0-9]{1,12}", whole):
        return [_gigabytes(int(whole))] * num_nodes
    if re.fullmatch("[0-9]{1,12}", each):
        return [_gigabytes(int(each) * (cpus or 0)) for cpus in _per_node(environ, _CPUS, num_nodes, mistakes)]
    return [None] * num_nodes


def _gigabytes(megabytes: int) -> float | None:
    return round(megabytes * _BYTES_PER_MB / 1e9, 1) or None
