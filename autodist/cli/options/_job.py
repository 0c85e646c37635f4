"""The options that say how workers are started, and the job that comes of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.cli.options._number import Number
from autodist.cli.options._options import environment_options, resolve_environment, typed_options
from autodist.cli.options._script import ScriptWords

if TYPE_CHECKING:
    from autodist.launch import Job, TransportName
    from autodist.resource_spec import ResourceSpec

_PERMISSIONS = ("encrypt", "allow-open-ports")
JOB_SECTIONS = {
    "Cluster": ("spec", "hosts", "hostfile", "workers", "replicas"),
    "Other machines": ("transport", "bring", "connect-timeout", "host-timeout", "no-check-versions", *_PERMISSIONS),
    "Environment of the workers": ("env", "env-file"),
}


OPTIONS_OF_MACHINES = frozenset({"transport", "bring", "connect_timeout", "host_timeout", "no_check_versions"})
"""Parameters that mean nothing where all workers are on this machine."""


@dataclass(frozen=True)
class JobOptions:
    """Options that :func:`job_options` adds to a command, as given; the command takes it as ``options``."""

    seed: int | None
    run_dir: str | None
    transport: TransportName | None
    bring: tuple[str, ...]
    connect_timeout: float
    host_timeout: float
    no_check_versions: bool
    encrypt: bool
    allow_open_ports: bool
    env: tuple[str, ...]
    env_file: tuple[str, ...]
    start_timeout: float
    grace: float

    def job(self, script: ScriptWords, spec: ResourceSpec, **settings: Any) -> Job:
        """Return the job of a script on a cluster.

        Raises:
            UsageError: Some option holds what is not allowed.
        """
        from autodist.launch import Job

        _tell_of_idle(spec)
        return Job(
            script=Path(script.text),
            spec=spec,
            script_args=script.args,
            is_module=script.is_module,
            env=resolve_environment(self.env, self.env_file),
            seed=self.seed,
            run_dir=None if self.run_dir is None else Path(self.run_dir),
            bring=tuple(map(Path, self.bring)) or None,
            connect_timeout_s=self.connect_timeout,
            host_timeout_s=self.host_timeout,
            check_versions=not self.no_check_versions,
            encrypt=self.encrypt,
            allow_open_ports=self.allow_open_ports,
            start_timeout_s=self.start_timeout,
            grace_s=self.grace,
            **settings,
        )

    def road(self, spec: ResourceSpec) -> TransportName:
        """Return the way to other machines."""
        from autodist.remote import default_transport

        return self.transport or default_transport(os.environ, spec)


def _tell_of_idle(spec: ResourceSpec) -> None:
    """Tell of options that were given and have no effect."""
    idle = [f"`{option}`" for name, option in typed_options().items() if name in OPTIONS_OF_MACHINES]
    if idle and all(host.is_local for host in spec.hosts):
        from autodist.report import show_warning

        has = "has" if len(idle) == 1 else "have"
        show_warning(f"{' and '.join(idle)} {has} no effect: all workers are on this machine")


def seconds_option(name: str, default: float, help_text: str) -> Callable[[Any], Any]:
    """Make an option that holds a time; the job refuses those it can't have."""
    return click.option(name, metavar="SECONDS", type=Number(), default=default, show_default=True, help=help_text)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says how workers are started."""

    @functools.wraps(command)
    def gathered(**given: Any) -> Any:
        options = JobOptions(**{field.name: given.pop(field.name) for field in fields(JobOptions)})
        return command(options=options, **given)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def permission_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says how values may travel, as ``encrypt`` and ``allow_open_ports``."""
    allow = click.option(
        "--allow-open-ports",
        is_flag=True,
        help="Allow TensorFlow's servers where the strategy needs them: they run code for any machine of the cluster.",
    )
    encrypt = click.option(
        "--encrypt", is_flag=True, help="Encrypt all that goes to other machines; refuse what can't be."
    )
    return encrypt(allow(command))


def transport_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--transport``."""
    return click.option(
        "--transport",
        type=click.Choice(["asyncssh", "ssh", "srun"]),
        help="How to reach other machines: by AutoDist's own SSH, the system's `ssh` (for Kerberos, ControlMaster), "
        "or Slurm. Default: srun in a Slurm job, else asyncssh.",
    )(command)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--seed",
        type=int,
        help="Seed of all random generators of all workers. Default: a new one in each run, kept in env.json.",
    ),
    click.option("--run-dir", metavar="DIR", help="Directory for logs and summaries. Default: runs/<id>."),
    transport_option,
    click.option(
        "--bring",
        metavar="PATH",
        multiple=True,
        help="Also send this file or directory, like the Python modules next to the script. Repeatable.",
    ),
    seconds_option("--connect-timeout", 30.0, "Longest time until a machine has answered."),
    seconds_option("--host-timeout", 30.0, "Longest silence of a machine, after which it counts as lost."),
    click.option("--no-check-versions", is_flag=True, help="Start although the machines have different software."),
    permission_options,
    environment_options,
    seconds_option("--start-timeout", 300.0, "Longest time until a worker's first step, 0 for no limit."),
    seconds_option("--grace", 5.0, "Time between asking a worker to end and killing it."),
)
