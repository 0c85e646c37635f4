"""``autodist fetch``: what the script of a run has written on other machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autodist.cli.options import debug_option, transport_option
from autodist.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autodist.launch import FetchedFiles, TransportName


@click.command("fetch", epilog="Example: autodist fetch latest checkpoints '*.keras'")
@click.argument("run")
@click.argument("patterns", nargs=-1, metavar="[PATTERN...]")
@click.option("--to", "target", metavar="DIR", help="Directory for the files. Default: `files` in the run's directory.")
@transport_option
@debug_option
def fetch(run: str, patterns: tuple[str, ...], target: str | None, transport: TransportName | None) -> None:
    """Copy what the script of RUN has written on other machines: checkpoints, models, results.

    These are the files in the workers' directories that are newer than the run's start; with PATTERNs, like
    'results/*.csv' or the name of a directory, only those. RUN is a run's name, the beginning of it, `latest`, or a
    path. Files of several machines come into a folder for each.
    """
    from autodist.launch import fetch as copy
    from autodist.launch import find_run, make_transport
    from autodist.remote import default_transport
    from autodist.report import output_console
    from autodist.resource_spec import ResourceSpec

    run_dir = find_run(run)
    spec = ResourceSpec.from_json((run_dir / "spec.json").read_text())
    road = make_transport(transport or default_transport(os.environ, spec))
    console = output_console()
    for line in _lines(copy(run_dir, road, patterns, None if target is None else Path(target))):
        console.print(line)


def _lines(found: Sequence[FetchedFiles]) -> Iterator[str]:
    """The files copied from each machine, and one line for all machines without any."""
    for one in found:
        if one.files:
            what = f"{counted(len(one.files), 'file')}, {one.size_bytes / 1e6:.1f} MB"
            yield f"{one.address}: {what} of {one.directory} in {_shown(one.target)}"
    if empty := [one.address for one in found if not one.files]:
        yield f"nothing to copy on {', '.join(empty)}"


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
