"""``autodist doctor``: is the cluster fit for training."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autodist.cli.options import DEFAULT_SPEC, ClusterOptions, Number, cluster_options, debug_option, resolve_spec
from autodist.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from autodist.doctor import Diagnosis
    from autodist.launch import TransportName

_UNFIT = 3


@click.command("doctor", epilog="Example: autodist doctor --spec cluster.yml --probe")
@cluster_options
@click.option("--probe", is_flag=True, help="Measure bandwidth, bursts and latency between all machines.")
@click.option("--write-links", is_flag=True, help="Measure, and write the result into `links` of the spec file.")
@click.option(
    "--transport",
    type=click.Choice(["asyncssh", "ssh", "srun"]),
    help="The way to other machines. Default: srun in a Slurm job, else asyncssh.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Number(),
    default=30.0,
    show_default=True,
    help="Longest wait for a machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("-v", "--verbose", is_flag=True, help="Show also what is all right.")
@debug_option
def doctor(
    cluster: ClusterOptions,
    probe: bool,
    write_links: bool,
    transport: TransportName | None,
    timeout: float,
    as_json: bool,
    verbose: bool,
) -> int:
    """Check every machine of the cluster: whether it can be reached, has what training needs, and reaches the others.

    The machines need nothing but Python, and nothing is changed there. Each problem comes with its remedy. Exits
    with 3 if training could not run.
    """
    from autodist.doctor import Status, diagnose, show_diagnosis, to_json
    from autodist.launch import make_transport
    from autodist.remote import default_transport

    path = _spec_file(cluster) if write_links else None
    if timeout <= 0:
        raise UsageError(f"`--timeout` is {timeout:g}, it must be above 0")
    spec = resolve_spec(cluster)
    road = make_transport(transport or default_transport(os.environ, spec))
    diagnosis = diagnose(spec, road, probe=probe or write_links, timeout_s=timeout, note=_note())
    if as_json:
        click.echo(to_json(diagnosis))
    else:
        show_diagnosis(diagnosis, everything=verbose)
    if path is not None:
        _write(path, diagnosis)
    return _UNFIT if diagnosis.worst is Status.FAIL else 0


def _spec_file(cluster: ClusterOptions) -> Path:
    """Return the file that the cluster is read from."""
    if cluster.spec is not None:
        return Path(cluster.spec)
    if not cluster.given and DEFAULT_SPEC.is_file():
        return DEFAULT_SPEC
    raise UsageError(
        "`--write-links` needs a file to write to",
        hint="make one by `autodist init`, and name it by `--spec`",
    )


def _note() -> Callable[[str], None]:
    from autodist.report import error_console

    console = error_console()
    return lambda text: console.print(f"autodist: {text}", style="dim", highlight=False)


def _write(path: Path, diagnosis: Diagnosis) -> None:
    from autodist.doctor import write_links

    written = write_links(path, diagnosis.examination.visits, diagnosis.links)
    plural = "" if written == 1 else "s"
    _note()(f"{written} link{plural} written into {path}" if written else f"no link was measured, {path} is as it was")
