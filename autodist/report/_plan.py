"""What a run would start."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autodist.report._consoles import output_console
from autodist.report._run import PlannedWorker

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show_plan"]


def show_plan(workers: Sequence[PlannedWorker], console: Console | None = None) -> None:
    """Show every worker's host, command and environment, on standard output by default."""
    console = console or output_console()
    for worker in workers:
        console.print(f"worker {worker.rank} on {worker.host}", style="bold")
        console.print(f"  command  {shlex.join(worker.argv)}")
        for name, value in sorted(worker.env.items()):
            console.print(f"  env      {name}={shlex.quote(value)}")
