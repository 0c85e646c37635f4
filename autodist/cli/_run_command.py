"""``autodist run``: a script on all workers."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autodist.cli.options import (
    JOB_SECTIONS,
    ClusterOptions,
    JobOptions,
    RanksType,
    ScriptCommand,
    ScriptWords,
    cluster_options,
    debug_option,
    job_options,
    resolve_spec,
    script_argument,
    seconds_option,
)
from autodist.errors import GraphError, StoreError, UsageError
from autodist.installation import trials_file

if TYPE_CHECKING:
    from autodist.launch import Job, TransportName
    from autodist.report import RunConsole

_TRIED_ONLINE = 4
_SECTIONS = {
    **JOB_SECTIONS,
    "Bounds": ("start-timeout", "stall-timeout", "grace", "max-restarts"),
    "What is shown": ("ranks", "dry-run", "verbose", "debug", "help"),
}


@click.command(
    "run",
    cls=ScriptCommand,
    sections=_SECTIONS,
    epilog="Example: autodist run train.py --workers 2 --strategy PSLoadBalancing -- --epochs 3",
    options_metavar="[OPTIONS]",
)
@script_argument()
@click.option("--strategy", metavar="NAME|FILE", help="See `autodist strategies`. Default: the script's, else auto.")
@click.option("--tune-online", is_flag=True, help="Let `auto` try a few strategies in the first training steps.")
@click.option("--dump-graphs", metavar="DIR", help="Write each worker's graph after each kernel to DIR.")
@cluster_options
@job_options
@seconds_option("--stall-timeout", 600.0, "Longest time between two steps of a worker, 0 for no limit.")
@click.option(
    "--max-restarts",
    metavar="N",
    type=int,
    default=0,
    show_default=True,
    help="Start all workers again after a failure, up to N times; the script goes on from its checkpoints.",
)
@click.option(
    "--ranks",
    type=RanksType(),
    metavar="LIST",
    help="Ranks of the workers whose lines to show, like 0,2-3. Default: all.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be started, and start nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show more.")
@debug_option
def run(
    script: ScriptWords,
    cluster: ClusterOptions,
    options: JobOptions,
    ranks: frozenset[int] | None,
    strategy: str | None,
    tune_online: bool,
    dump_graphs: str | None,
    stall_timeout: float,
    max_restarts: int,
    dry_run: bool,
    verbose: bool,
) -> int:
    """Run the training script SCRIPT on all workers.

    Options may stand before or after SCRIPT; what follows `--` belongs to the script.
    """
    from autodist.report import RunConsole

    job = options.job(
        script,
        resolve_spec(cluster),
        strategy=_tried_online(strategy) if tune_online else strategy,
        dump_graphs=None if dump_graphs is None else Path(dump_graphs),
        stall_timeout_s=stall_timeout,
        max_restarts=max_restarts,
    )
    road = options.road(job.spec)
    with _with_trials(job) as informed:
        given, used = (one.strategy or one.default_strategy or "" for one in (job, informed))
        console = RunConsole(ranks, verbose, names={used: given})
        return _show_plan(informed, road) if dry_run else _launch(informed, road, ranks, console)


def _tried_online(strategy: str | None) -> str:
    from autodist.search import Auto
    from autodist.strategies import get

    chosen = Auto() if strategy is None else get(strategy)
    if not isinstance(chosen, Auto):
        raise UsageError(
            f"`--tune-online` chooses the strategy, but `--strategy {strategy}` does as well",
            hint="leave one of them out, or give `--strategy auto`",
        )
    return str(chosen if chosen.online > 1 else replace(chosen, online=_TRIED_ONLINE))


@contextlib.contextmanager
def _with_trials(job: Job) -> Iterator[Job]:
    """Name an excerpt of the trials that are here in `auto`, so that it has them on another machine as well."""
    wanted = job.strategy or job.default_strategy or ""
    if not wanted.strip().casefold().startswith("auto") or not Path(trials_file()).is_file():
        yield job
        return
    from autodist.search import Auto, TrialStore, excerpt
    from autodist.strategies import get

    chosen = get(wanted)
    if not isinstance(chosen, Auto) or chosen.trials is not None:
        yield job
        return
    with tempfile.TemporaryDirectory(prefix="autodist-") as directory:
        path = Path(directory, "trials.db")
        try:
            with TrialStore(trials_file()) as store:
                excerpt(store, path)
        except (GraphError, StoreError) as error:
            click.echo(f"autodist: {error.message}; the strategy is chosen without trials", err=True)
            path = Path(directory, "none.db")
            TrialStore(path).close()
        informed = str(replace(chosen, trials=str(path)))
        is_default = job.strategy is None
        yield replace(job, default_strategy=informed) if is_default else replace(job, strategy=informed)


def _launch(job: Job, transport: TransportName, ranks: frozenset[int] | None, console: RunConsole) -> int:
    from autodist.launch import ClusterLauncher, RestartingLauncher

    unknown = sorted(rank for rank in ranks or () if rank >= job.spec.world_size)
    if unknown:
        raise UsageError(f"`--ranks` names {unknown[0]}, the ranks of this run are 0 to {job.spec.world_size - 1}")
    return RestartingLauncher(ClusterLauncher(console, transport), console).launch(job).exit_code


def _show_plan(job: Job, transport: TransportName) -> int:
    from autodist.launch import ClusterLauncher
    from autodist.report import show_plan

    roads = ["local" if host.is_local else transport for host in job.spec.hosts]
    planned = [command.describe() for command in ClusterLauncher().plan(job)]
    show_plan([replace(worker, transport=road) for worker, road in zip(planned, roads, strict=True)])
    return 0
