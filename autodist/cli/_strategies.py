"""``autodist strategies``: the builders there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from autodist.cli._options import debug_option

if TYPE_CHECKING:
    from rich.table import Table

    from autodist.strategies import BuilderInfo

__all__ = ["strategies"]

_SCHEMA_VERSION = 1


@click.command("strategies", epilog="Example: autodist run train.py --strategy 'AllReduce(chunk_size=64)'")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def strategies(as_json: bool) -> None:
    """List the strategy builders, with their parameters and defaults."""
    from autodist.strategies import builders

    if as_json:
        click.echo(_json(builders()))
        return
    from rich.console import Console

    Console().print(_table(builders()))


def _json(infos: tuple[BuilderInfo, ...]) -> str:
    rows = [{"name": i.name, "summary": i.summary, "parameters": dict(i.parameters)} for i in infos]
    return json.dumps({"schema_version": _SCHEMA_VERSION, "strategies": rows}, indent=2)


def _table(infos: tuple[BuilderInfo, ...]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for header in ("Strategy", "Parameters", "What it does"):
        table.add_column(header, overflow="fold")
    for info in infos:
        parameters = "\n".join(f"{name}={default!r}" for name, default in info.parameters.items())
        table.add_row(Text(info.name, style="bold"), Text(parameters), Text(info.summary))
    return table
