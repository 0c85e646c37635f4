"""The workers that a run would start."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from autodist.report._consoles import output_console
from autodist.report._run_data import PlannedWorker

_MOST_FILES = 10


def show_plan(workers: Sequence[PlannedWorker]) -> None:
    """Show every worker's host, command and environment, on standard output."""
    console = output_console()
    for worker in workers:
        road = "" if worker.transport == "local" else f" by {worker.transport}"
        console.print(f"worker {worker.rank} on {worker.host}{road}", style="bold")
        console.print(f"  command  {shlex.join(worker.argv)}")
        console.print(f"  in       {shlex.quote(worker.directory)}")
        if worker.brought:
            console.print(f"  brings   {_listed(worker.brought)}, unless the host has the same at the same path")
        for name, value in sorted(worker.env.items()):
            console.print(f"  env      {name}={shlex.quote(value)}")


def _listed(files: Sequence[str]) -> str:
    shown = ", ".join(map(shlex.quote, files[:_MOST_FILES]))
    return shown if len(files) <= _MOST_FILES else f"{shown} and {len(files) - _MOST_FILES} more files"
