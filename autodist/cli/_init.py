"""``autodist init``: a first spec file."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autodist.cli.options import DEFAULT_SPEC, debug_option
from autodist.errors import SpecError, UsageError

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

_STANDARD_OUTPUT = "-"
_DEFAULT_CONFIG = "~/.ssh/config"

_HEAD = """\
A cluster for `autodist run`: one worker process per node, and each runs the whole script.
Ranks follow the order of the nodes.
"""
_FOOT = """
# What else a node may say:
#   cpus: 2                       devices that hold a replica, where there is no GPU
#   gpus: [0, 1]                  the same, as CUDA ids or as a number
#   bandwidth_gbps: 10            of its network interface; `autodist doctor --write-links` measures the links
#   memory_gb: 64                 that each worker may use
#   price_per_hour: 2.4           of each worker, in any currency; `autodist search` says what training costs
#   cores_shared_by: 4            workers that compute on the same processors, such as virtual machines of one machine
#   burst_kb: 256                 that its link passes at once after a rest, where a token bucket bounds its bandwidth
#   python: /opt/venv/bin/python  if it is not where it is on the launching machine
#   directory: ~/training         where its workers run
#   env: {OMP_NUM_THREADS: 4}
"""


@click.command("init", epilog="Example: autodist init -H worker1:2,worker2:2")
@click.option("-H", "--hosts", metavar="LIST", help="The hosts, as in a:2,b:2.")
@click.option("--hostfile", metavar="FILE", help="The hosts of MPI's hostfile, with lines like `a slots=2`.")
@click.option("--slurm", is_flag=True, help="The nodes of the Slurm job that this runs in.")
@click.option(
    "--from-ssh-config",
    "ssh_config",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_DEFAULT_CONFIG,
    help=f"The hosts of an SSH configuration, {_DEFAULT_CONFIG} by default.",
)
@click.option(
    "-o", "--out", metavar="FILE", default=str(DEFAULT_SPEC), show_default=True, help="File to write; `-` prints it."
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@debug_option
def init(hosts: str | None, hostfile: str | None, slurm: bool, ssh_config: str | None, out: str, force: bool) -> None:
    """Write a description of the cluster, with comments, to start from.

    Without an option it describes this machine: its GPUs, cores and memory.
    """
    from autodist.resource_spec import to_yaml

    given = {"--hosts": hosts, "--hostfile": hostfile, "--slurm": slurm or None, "--from-ssh-config": ssh_config}
    spec, notes, origin = _find(given)
    text = to_yaml(spec, header=f"{_HEAD}{origin}", notes=notes) + _FOOT
    if out == _STANDARD_OUTPUT:
        click.echo(text, nl=False)
        return
    _write(Path(out), text, force=force)
    click.echo(f"{out}: {_counted(spec.world_size, 'host')}, {_counted(len(spec.replicas), 'replica')}")
    click.echo(f"next: {_next(spec, out)}")


def _find(given: Mapping[str, str | bool | None]) -> tuple[ResourceSpec, Mapping[str, str], str]:
    """Return the cluster, comments by host, and where it comes from.

    Raises:
        UsageError: Several sources.
        SpecError: The source has mistakes.
    """
    from autodist import resource_spec as sources

    options = [option for option, value in given.items() if value is not None]
    if len(options) > 1:
        raise UsageError(f"`{options[0]}` and `{options[1]}` were given, they exclude each other")
    if not options:
        return _this_machine()
    value = str(given[options[0]])
    match options[0]:
        case "--hosts":
            return sources.parse_hosts(value), {}, f"From `-H {value}`."
        case "--hostfile":
            return sources.read_hostfile(value), {}, f"From the hostfile {value}."
        case "--slurm":
            origin = f"From Slurm job {os.environ.get('SLURM_JOB_ID')}: another job has other nodes."
            return sources.read_slurm(os.environ), {}, origin
    spec, notes = sources.cluster_of(sources.read_ssh_config(Path(value).expanduser()))
    return spec, notes, f"From {value}: delete the hosts that are not meant."


def _this_machine() -> tuple[ResourceSpec, Mapping[str, str], str]:
    from autodist.agent import hardware
    from autodist.resource_spec import ResourceSpec

    spec = ResourceSpec.local()
    memory_gb = round(hardware.memory()["total"] / 1e9, 1)
    (host,) = spec.hosts
    gpus = _counted(len(host.gpus), "GPU") if host.gpus else "no GPU"
    note = (
        f"This machine: {hardware.cores()['usable']:g} cores, {memory_gb:g} GB, {gpus}. Together with other hosts it "
        f"needs the name that they know it by, such as `{socket.gethostname()}`."
    )
    return replace(spec, hosts=(replace(host, memory_gb=memory_gb),)), {host.name: note}, "From this machine."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"`{path}` is there already", hint="give `--force` to replace it, or another name by `-o`"
        ) from None
    except OSError as error:
        raise SpecError(f"`{path}` can't be written: {error.strerror}") from error


def _next(spec: ResourceSpec, out: str) -> str:
    named = "" if Path(out) == DEFAULT_SPEC else f" --spec {shlex.quote(out)}"
    if all(host.is_local for host in spec.hosts):
        return f"autodist run train.py{named}"
    return f"autodist doctor{named}"
