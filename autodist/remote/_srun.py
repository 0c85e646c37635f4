"""Nodes of a Slurm allocation, by job steps of ``srun``."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Literal

from autodist.errors import HostUnreachable, SpecError
from autodist.remote._base import Channel, Machine, Transport
from autodist.remote._subprocess import open_subprocess
from autodist.resource_spec import ResourceSpec, is_in_slurm, read_slurm

_PROGRAM = "srun"
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|API_?KEY|PRIVATE_?KEY|_PAT$", re.IGNORECASE)

_OPTIONS = (
    # One task on the one node, whatever the job's own numbers are, which srun reads from the environment.
    "--nodes=1", "--ntasks=1", "--ntasks-per-node=1",
    # Alongside the step that runs us, and a second agent; all cores, GPUs and memory that the job has there.
    "--overlap", "--cpu-bind=none", "--mem=0",
    # Without it Slurm passes on whole lines only, and what an agent says has no line ends. Output goes through a
    # terminal then, but one that changes nothing; input stays a pipe.
    "--unbuffered",
    "--input=all", "--output=all", "--error=all",
    "--export=ALL",
    # That one task ends badly is the launcher's to judge.
    "--kill-on-bad-exit=0",
    "--job-name=autodist", "--quiet",
)  # fmt: skip

_OPTIONS_OF_THE_JOB = frozenset({
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_TRES_PER_TASK", "SLURM_GPUS",
    "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND", "SLURM_TRES_BIND", "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_HINT",
    "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION", "SLURM_LABELIO",
})  # fmt: skip
"""Variables that ``sbatch`` sets and ``srun`` reads as options of its own, which are wrong for one task on one node:
the GPUs of all nodes, a part of the cores, labels before the lines."""


def default_transport(environ: Mapping[str, str], spec: ResourceSpec | None = None) -> Literal["asyncssh", "srun"]:
    """Return the name of the transport to use if the user names none: ``srun`` inside a Slurm allocation, else SSH.

    Args:
        environ: The launcher's environment.
        spec: The cluster; with hosts outside the allocation it is reached by SSH.

    Example:
        >>> default_transport({})
        'asyncssh'
    """
    if not is_in_slurm(environ) or shutil.which(_PROGRAM, path=environ.get("PATH")) is None:
        return "asyncssh"
    nodes = _nodes(environ)
    others = [] if spec is None else [host.address for host in spec.hosts if not host.is_local]
    return "srun" if all(_node_of(address, nodes) for address in others) else "asyncssh"


class SrunTransport(Transport):
    """Starts programs on the nodes of the allocation that this process is in, as job steps alongside its own.

    They get this process' environment, as is the custom of Slurm, without the variables whose names say that they are
    secret.

    Args:
        environ: The environment to find the allocation in and to pass on; None is that of this process.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program on a node.

        Raises:
            HostUnreachable: No allocation, a machine that is not in it, or no ``srun``.
        """
        program, node = self._find_program(machine), self._find_node(machine)
        patience = f"--immediate={max(1, int(timeout_s))}"
        command = [program, *_OPTIONS, patience, f"--nodelist={node}", *argv]
        try:
            return await open_subprocess(command, self._passed_on())
        except OSError as error:
            raise _unreachable(machine, f"`{program}` can't be started: {error.strerror or error}", _BY_SSH) from error

    async def close(self) -> None:
        """Nothing is open besides the channels."""

    def _find_program(self, machine: Machine) -> str:
        # Outside an allocation srun would ask for a new one, and wait in the queue for it.
        if not is_in_slurm(self._environ):
            raise _unreachable(
                machine, "this is not a Slurm allocation", "get one by `salloc` or `sbatch`, or " + _BY_SSH
            )
        program = shutil.which(_PROGRAM, path=self._environ.get("PATH"))
        if program is None:
            raise _unreachable(machine, "`srun` is not on the PATH", "load Slurm's module, or " + _BY_SSH)
        return program

    def _find_node(self, machine: Machine) -> str:
        nodes = _nodes(self._environ)
        node = _node_of(machine.address, nodes)
        if node is None:
            shown = ", ".join(nodes[:8]) + (", ..." if len(nodes) > 8 else "")
            text = (
                f"it is not in the allocation of job {self._environ['SLURM_JOB_ID']}, which has {shown or 'no nodes'}"
            )
            raise _unreachable(machine, text, "name nodes of the allocation, or " + _BY_SSH)
        return node

    def _passed_on(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self._environ.items()
            if name not in _OPTIONS_OF_THE_JOB and (name.startswith("SLURM_") or _SECRET.search(name) is None)
        }


_BY_SSH = "use `--transport ssh`"


def _nodes(environ: Mapping[str, str]) -> list[str]:
    try:
        return [host.address for host in read_slurm(environ).hosts]
    except SpecError:
        return []


def _node_of(address: str, nodes: Sequence[str]) -> str | None:
    """Return the node that an address means: Slurm names nodes without their domain."""
    lower = address.lower()
    same = [node for node in nodes if node.lower() == lower]
    return next(iter(same or [node for node in nodes if node.lower() == lower.partition(".")[0]]), None)


def _unreachable(machine: Machine, reason: str, hint: str) -> HostUnreachable:
    return HostUnreachable(
        f"`{machine.address}` can't be reached by `srun`: {reason}", hint=hint, address=machine.address
    )
