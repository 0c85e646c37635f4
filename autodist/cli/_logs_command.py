"""``autodist logs``: what the workers of a run wrote, or write."""

from __future__ import annotations

from pathlib import Path

import click

from autodist.cli.options import RanksType, debug_option
from autodist.errors import UsageError


@click.command("logs", epilog="Example: autodist logs latest --rank 1 --follow")
@click.argument("run")
@click.option("--rank", type=click.IntRange(min=0), metavar="RANK", help="Show only this worker's lines.")
@click.option(
    "--ranks", type=RanksType(), metavar="LIST", help="Show only these workers' lines, like 0,2-3. Default: all."
)
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="Show only each worker's last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@debug_option
def logs(run: str, rank: int | None, ranks: frozenset[int] | None, lines: int | None, follow: bool) -> None:
    """Print what the workers of RUN wrote, worker by worker.

    RUN is a run's name, the beginning of it, `latest`, or a path.
    """
    from autodist.launch import find_run, read_logs, read_status
    from autodist.report import LogConsole

    run_dir = _with_workers(find_run(run))
    all_ranks = range(len(read_status(run_dir).workers))
    wanted = (ranks or frozenset()) | (frozenset() if rank is None else {rank})
    unknown = sorted(wanted.difference(all_ranks))
    if unknown:
        raise UsageError(f"run `{run}` has no rank {unknown[0]}, its ranks are 0 to {len(all_ranks) - 1}")
    console = LogConsole()
    for line_rank, text in read_logs(run_dir, sorted(wanted or all_ranks), lines, follow):
        console.line(line_rank, text)


def _with_workers(run_dir: Path) -> Path:
    """Return the run itself, or of a search the last workers that it has started."""
    started = sorted(run_dir.glob("workers-*/status.json"), key=lambda path: int(path.parent.name.rpartition("-")[2]))
    return started[-1].parent if started else run_dir
