"""``autodist certify``: is the distributed run the single-device run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from autodist.cli.options import (
    ClusterOptions,
    Number,
    ScriptWords,
    cluster_options,
    debug_option,
    permission_options,
    resolve_spec,
    script_argument,
)
from autodist.errors import CertificateFailed
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.testing import Certificate

_SCHEMA_VERSION = 1
_ROWS = 5


@click.command(
    "certify",
    epilog="Example: autodist certify train.py --workers 2 --strategy PSLoadBalancing --steps 10",
    options_metavar="[OPTIONS]",
)
@script_argument()
@click.option("--strategy", metavar="NAME|FILE", help="See `autodist strategies`. Default: the script's, else auto.")
@cluster_options
@permission_options
@click.option("--steps", type=click.IntRange(min=1), default=5, show_default=True, help="Training steps to compare.")
@click.option("--tolerance", type=Number(0), default=1e-5, show_default=True, help="Largest relative difference.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def certify(
    script: ScriptWords,
    strategy: str | None,
    cluster: ClusterOptions,
    encrypt: bool,
    allow_open_ports: bool,
    steps: int,
    tolerance: float,
    as_json: bool,
) -> int:
    """Compare SCRIPT's first steps on one device and distributed.

    Both runs start from the same seed. Every variable, optimizer slot and returned value is compared, on every worker.
    Exits with 3 if any differs by more than the tolerance, or if the weights did not move.
    """
    from autodist import testing
    from autodist.report import error_console

    spec = resolve_spec(cluster if cluster.given else ClusterOptions(workers=2))
    error_console().print(
        f"certify: {counted(steps, 'step')} on one device, then on {counted(spec.world_size, 'worker')} with "
        f"{counted(len(spec.replicas), 'replica')}"
    )
    certificate = testing.certify(
        script.text,
        script.args,
        is_module=script.is_module,
        strategy=strategy,
        spec=spec,
        steps=steps,
        tolerance=tolerance,
        encrypt=encrypt,
        allow_open_ports=allow_open_ports,
    )
    if as_json:
        click.echo(_json(certificate))
    else:
        _show(certificate)
    try:
        certificate.check()
    except CertificateFailed:
        if not as_json:
            raise
        return CertificateFailed.exit_code
    return 0


def _json(certificate: Certificate) -> str:
    content = {
        "schema_version": _SCHEMA_VERSION,
        "passed": certificate.passed,
        "tolerance": certificate.tolerance,
        "steps": certificate.num_steps,
        "workers": certificate.num_workers,
        "variables_moved": certificate.moved,
        "notes": certificate.notes,
        "worst": asdict(certificate.worst),
        "differences": [asdict(difference) for difference in certificate.differences],
    }
    return json.dumps(content, indent=2)


def _show(certificate: Certificate) -> None:
    from autodist.report import fitted_table, output_console, table_console

    shown = certificate.differences[:_ROWS]
    columns = {
        "Array": [d.name for d in shown],
        "Rank": [str(d.rank) for d in shown],
        "Relative": [f"{d.relative:.1e}" for d in shown],
        "Absolute": [f"{d.absolute:.1e}" for d in shown],
    }
    tables, console = table_console(), output_console()
    tables.print(fitted_table(columns, tables.width, right=tuple(columns)[1:], shrink={"Array": 20}))
    rest = len(certificate.differences) - _ROWS
    if rest > 0:
        console.print(f"and {counted(rest, 'array')} that differ{'s' if rest == 1 else ''} less")
    for note in certificate.notes if certificate.passed else ():
        console.print(f"note: {note}")
    verdict = "passed" if certificate.passed else "FAILED"
    console.print(
        f"{verdict}: worst relative difference {certificate.worst.relative:.1e}, allowed {certificate.tolerance:.0e}; "
        f"{counted(certificate.moved, 'variable')} moved in {counted(certificate.num_steps, 'step')} on "
        f"{counted(certificate.num_workers, 'worker')}"
    )
