"""Runs as a table, one run with its workers, and the lines of their logs."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime, timezone

from autodist.report._cells import fitted, table_console
from autodist.report._consoles import output_console
from autodist.report._escapes import plain
from autodist.report._run_console import drawn_prefix, duration_text, shown_path, write_line
from autodist.report._run_status import RunState, RunStatus, WorkerStatus


def show_runs(runs: Sequence[RunStatus]) -> None:
    """Show one line per run, on standard output."""
    console = table_console()
    columns = {
        "Run": [run.run_dir.name for run in runs],
        "Script": [_what(run) for run in runs],
        "Strategy": [_strategy_name(run.strategy) for run in runs],
        "State": [run.state.value for run in runs],
        "Exit": [_number(run.exit_code) for run in runs],
        "Steps": [str(run.steps) for run in runs],
        "Time": [_time_taken(run) for run in runs],
        "Restarts": [str(run.attempt or "") for run in runs],
        "Hosts": [_hosts(run) for run in runs],
    }
    # A run is to be copied from here, so its name is never cut.
    shrink = {"Hosts": 5, "Script": 9, "Strategy": 9}
    console.print(fitted(columns, console.width, right=("Exit", "Steps", "Restarts"), shrink=shrink))


def show_run(run: RunStatus) -> None:
    """Show one run with its workers, on standard output."""
    console = table_console()
    facts = {
        "run": run.run_id,
        "script": _what(run),
        "strategy": plain(run.strategy),
        "state": _state(run),
        "began": f"{run.started_at.astimezone():%Y-%m-%d %H:%M:%S}, {_ago(run.started_at)}",
        "time": _time_taken(run),
        "restarts": str(run.attempt),
        "launcher": f"pid {run.launcher.pid} on {run.launcher.host}",
        "files": shown_path(run.run_dir),
    }
    for name, value in facts.items():
        if value:
            console.print(f"{name:<8}  {value}", soft_wrap=True)
    if not run.workers:
        return
    console.print()
    workers = run.workers
    columns = {
        "Rank": [str(worker.rank) for worker in workers],
        "Host": [worker.host for worker in workers],
        "Pid": [_number(worker.pid) for worker in workers],
        "State": [worker.state.value for worker in workers],
        "Exit": [_exit(worker) for worker in workers],
        "Steps": [str(worker.steps) for worker in workers],
        "Last step": ["" if worker.progressed_at is None else _ago(worker.progressed_at) for worker in workers],
    }
    console.print(fitted(columns, console.width, right=("Rank", "Pid", "Steps"), shrink={"Host": 9}))


class LogConsole:
    """Shows lines of logs the way the run has shown them, on standard output."""

    def __init__(self) -> None:
        self._console = output_console()
        self._prefixes: dict[int, str] = {}

    def line(self, rank: int, text: str) -> None:
        """Show a line.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """
        if rank not in self._prefixes:
            self._prefixes[rank] = drawn_prefix(rank, self._console)
        write_line(text, self._prefixes[rank], self._console)


def _what(run: RunStatus) -> str:
    text = run.script if run.command == "run" else f"{run.command} {run.script}".strip()
    return plain(text.encode(errors="backslashreplace").decode())  # names of files need not be text


def _state(run: RunStatus) -> str:
    if run.state is RunState.ENDED:
        return f"ended with exit code {run.exit_code}{_meaning(run.exit_code)}"
    if run.state is RunState.LOST:
        return "lost: its launcher was killed, and the workers with it"
    if run.state is RunState.SILENT:
        return f"silent: nothing was heard of its launcher since {_ago(run.updated_at)}"
    return str(run.state.value)


def _meaning(exit_code: int | None) -> str:
    meanings = {
        0: "success",
        1: "a worker failed",
        74: "checkpoints can't be written, or not be read",
        124: "a worker made no step for too long",
        **{128 + signum: f"interrupted by {signum.name}" for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)},
    }
    return f", {meanings[exit_code]}" if exit_code in meanings else ""


def _time_taken(run: RunStatus) -> str:
    end = run.updated_at if run.is_over or run.state is RunState.SILENT else datetime.now(timezone.utc)
    return duration_text(((run.ended_at or end) - run.started_at).total_seconds())


def _ago(moment: datetime) -> str:
    return f"{duration_text(max(0.0, (datetime.now(timezone.utc) - moment).total_seconds()))} ago"


def _strategy_name(strategy: str) -> str:
    """Return what a strategy is called, without the reasons for which `auto` chose it."""
    return strategy.partition(", expected to be ")[0].removesuffix("()")


def _hosts(run: RunStatus) -> str:
    """Return the hosts with the number of their workers, where one has several."""
    machines = [worker.host.partition("#")[0] for worker in run.workers]
    counts = {name: machines.count(name) for name in dict.fromkeys(machines)}
    shown = [f"{name} x{count}" if count > 1 else name for name, count in counts.items()]
    return ", ".join(shown if len(shown) <= 4 else [*shown[:3], f"... {shown[-1]}"])


def _exit(worker: WorkerStatus) -> str:
    return worker.signal or _number(worker.exit_code)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
