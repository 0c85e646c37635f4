"""``autodist test``: does this cluster train, with the results of one device."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from autodist.cli.options import ClusterOptions, cluster_options, debug_option, permission_options, resolve_spec
from autodist.wording import counted

_STEPS = 5
_TOLERANCE = 1e-5


@click.command("test", epilog="Example: autodist test --spec cluster.yml")
@cluster_options
@permission_options
@click.option(
    "--strategy", metavar="NAME|FILE", multiple=True, default=("AllReduce", "PSLoadBalancing"), show_default=True,
    help="Strategy to train by. Repeatable.",
)  # fmt: skip
@debug_option
def test(cluster: ClusterOptions, encrypt: bool, allow_open_ports: bool, strategy: tuple[str, ...]) -> None:
    """Train a small model on the cluster, and compare it with one device.

    It takes about a minute, needs no data, and leaves nothing behind. Exits with 3 if the results differ, and as `run`
    does if the training fails; `autodist doctor` says what a machine lacks.
    """
    import autodist.testing as testing
    from autodist.report import error_console, output_console

    spec = resolve_spec(cluster if cluster.given else ClusterOptions(workers=2))
    script = Path(testing.__file__).parent / "small_training" / "train_small.py"
    workers = counted(spec.world_size, "worker")
    with tempfile.TemporaryDirectory(prefix="autodist-test-") as kept:
        for name in strategy:
            error_console().print(
                f"autodist: {counted(_STEPS, 'step')} on one device and on {workers} with {name}", style="dim"
            )
            certificate = testing.certify(
                script, strategy=name, spec=spec, steps=_STEPS, tolerance=_TOLERANCE, encrypt=encrypt,
                allow_open_ports=allow_open_ports, reference=Path(kept, "one-device"),
            ).check()  # fmt: skip
            output_console().print(
                f"{name}: passed on {workers}, worst relative difference {certificate.worst.relative:.1e}, allowed "
                f"{_TOLERANCE:.0e}"
            )
