"""``autodist run``: a script on all workers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.cli._cluster import ClusterOptions, cluster_options, resolve_spec
from autodist.cli._options import RanksType, debug_option, environment_options, resolve_environment
from autodist.cli._sections import SectionedCommand
from autodist.errors import UsageError

if TYPE_CHECKING:
    from autodist.launch import Job, TransportName
    from autodist.resource_spec import ResourceSpec

__all__ = ["run"]

_SECTIONS = {
    "Cluster": ("spec", "hosts", "hostfile", "workers", "replicas"),
    "Other machines": ("transport", "bring", "connect-timeout", "host-timeout", "no-check-versions"),
    "Environment of the workers": ("env", "env-file"),
    "Bounds": ("start-timeout", "stall-timeout", "grace", "max-restarts"),
    "What is shown": ("ranks", "dry-run", "verbose", "debug", "help"),
}


def _seconds(name: str, default: float, help_text: str) -> Callable[[Any], Any]:
    """Make an option that holds a time; the job refuses those it can't have."""
    return click.option(name, metavar="SECONDS", type=float, default=default, show_default=True, help=help_text)


class _RunCommand(SectionedCommand):
    """Says where the options of the script stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = f"{error.message.rstrip('.')}; options of the script stand after `--`."
            raise click.NoSuchOption(error.option_name, message, error.possibilities, error.ctx) from None


@click.command(
    "run",
    cls=_RunCommand,
    sections=_SECTIONS,
    epilog="Example: autodist run train.py --workers 2 --strategy PSLoadBalancing -- --epochs 3",
    options_metavar="[OPTIONS]",
)
@click.argument("script")
@click.argument("script_args", nargs=-1, metavar="[-- ARGS...]", type=click.UNPROCESSED)
@click.option("--strategy", metavar="NAME|FILE", help="See `autodist strategies`. Default: the script's choice.")
@click.option("--seed", type=int, help="For all workers. Default: another one in each run, kept in env.json.")
@click.option("--run-dir", metavar="DIR", help="For logs and summaries. Default: runs/<id>.")
@click.option("--dump-graphs", metavar="DIR", help="Write each worker's graph after each kernel to DIR.")
@cluster_options
@click.option(
    "--transport",
    type=click.Choice(["asyncssh", "ssh", "srun"]),
    help="The way to other machines: AutoDist's own SSH, the system's `ssh` (for Kerberos, ControlMaster), or Slurm. "
    "Default: srun in a Slurm job, else asyncssh.",
)
@click.option(
    "--bring",
    metavar="PATH",
    multiple=True,
    help="File or directory beside the script that goes with it. Repeatable. Default: the Python modules beside it.",
)
@_seconds("--connect-timeout", 30.0, "Longest time until a machine has answered.")
@_seconds("--host-timeout", 3.0, "Longest silence of a machine, after which it counts as lost.")
@click.option("--no-check-versions", is_flag=True, help="Start although the machines have different software.")
@environment_options
@_seconds("--start-timeout", 300.0, "Longest time to a worker's first step, 0 for no bound.")
@_seconds("--stall-timeout", 600.0, "Longest time between two steps of a worker, 0 for no bound.")
@_seconds("--grace", 5.0, "Time between asking a worker to end and killing it.")
@click.option(
    "--max-restarts",
    metavar="N",
    type=int,
    default=0,
    show_default=True,
    help="After a failure start all workers again, up to N times; the script goes on from its checkpoints.",
)
@click.option("--ranks", type=RanksType(), metavar="LIST", help="Whose lines to show, like 0,2-3. Default: all.")
@click.option("--dry-run", is_flag=True, help="Show what would be started, and start nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show more.")
@debug_option
def run(
    script: str,
    script_args: tuple[str, ...],
    cluster: ClusterOptions,
    transport: TransportName | None,
    ranks: frozenset[int] | None,
    dry_run: bool,
    verbose: bool,
    **settings: Any,
) -> int:
    """Run the training script SCRIPT on all workers.

    Options may stand before or after SCRIPT; what follows `--` belongs to the script.
    """
    from autodist.remote import default_transport

    job = _job(script, script_args, resolve_spec(cluster), **settings)
    road = transport or default_transport(os.environ, job.spec)
    return _show_plan(job, road) if dry_run else _launch(job, road, ranks, verbose)


def _job(
    script: str,
    script_args: tuple[str, ...],
    spec: ResourceSpec,
    *,
    strategy: str | None,
    env: tuple[str, ...],
    env_file: tuple[str, ...],
    seed: int | None,
    run_dir: str | None,
    dump_graphs: str | None,
    bring: tuple[str, ...],
    connect_timeout: float,
    host_timeout: float,
    no_check_versions: bool,
    start_timeout: float,
    stall_timeout: float,
    grace: float,
    max_restarts: int,
) -> Job:
    from autodist.launch import Job

    return Job(
        script=Path(script),
        spec=spec,
        script_args=script_args,
        strategy=strategy,
        env=resolve_environment(env, env_file),
        # All workers need the same one, and a plain Python script has another one each time.
        seed=secrets.randbelow(2**31) if seed is None else seed,
        run_dir=None if run_dir is None else Path(run_dir),
        dump_graphs=None if dump_graphs is None else Path(dump_graphs),
        bring=tuple(map(Path, bring)) or None,
        connect_timeout_s=connect_timeout,
        host_timeout_s=host_timeout,
        check_versions=not no_check_versions,
        start_timeout_s=start_timeout,
        stall_timeout_s=stall_timeout,
        grace_s=grace,
        max_restarts=max_restarts,
    )


def _launch(job: Job, transport: TransportName, ranks: frozenset[int] | None, is_verbose: bool) -> int:
    from autodist.launch import ClusterLauncher, RestartingLauncher
    from autodist.report import RunConsole

    unknown = sorted(rank for rank in ranks or () if rank >= job.spec.world_size)
    if unknown:
        raise UsageError(f"`--ranks` names {unknown[0]}, the ranks of this run are 0 to {job.spec.world_size - 1}")
    console = RunConsole(ranks, is_verbose)
    return RestartingLauncher(ClusterLauncher(console, transport), console).launch(job).exit_code


def _show_plan(job: Job, transport: TransportName) -> int:
    from autodist.launch import ClusterLauncher
    from autodist.report import show_plan

    roads = ["local" if host.is_local else transport for host in job.spec.hosts]
    planned = [command.describe() for command in ClusterLauncher().plan(job)]
    show_plan([replace(worker, transport=road) for worker, road in zip(planned, roads, strict=True)])
    return 0
