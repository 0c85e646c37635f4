"""``autodist status``: all runs, and the state of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from autodist.cli.options import debug_option

if TYPE_CHECKING:
    from autodist.errors import LaunchError
    from autodist.report import RunStatus

_SCHEMA_VERSION = 1


@click.command("status", epilog="Example: autodist status latest")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def status(run: str | None, as_json: bool) -> None:
    """List the runs below ./runs, newest first; with RUN that one, with its workers.

    RUN is a run's name, the beginning of it, `latest`, or a path. A run whose launcher was killed is `lost`.
    """
    from autodist.launch import find_run, list_runs, read_status
    from autodist.report import error_console, show_run, show_runs

    if run is not None:
        found = read_status(find_run(run))
        _print_json({"run": _as_json(found)}) if as_json else show_run(found)
        return
    runs = list_runs(on_error=_warn)
    if as_json:
        _print_json({"runs": [_as_json(found) for found in runs]})
    elif runs:
        show_runs(runs)
    else:
        error_console().print("autodist: there is no run below ./runs")


def _warn(error: LaunchError) -> None:
    from autodist.report import show_warning

    show_warning(error.message)


def _as_json(run: RunStatus) -> dict[str, Any]:
    return {
        **run.to_json(),
        "run_dir": str(run.run_dir),
        "steps": run.steps,
        "duration_s": round(run.duration.total_seconds(), 3),
    }


def _print_json(values: dict[str, Any]) -> None:
    click.echo(json.dumps({"schema_version": _SCHEMA_VERSION, **values}, indent=2))
