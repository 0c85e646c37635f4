"""``autodist explain``: what a strategy says, variable by variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from autodist.cli._options import debug_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from autodist.strategies import Explanation, Strategy

__all__ = ["explain"]

_SCHEMA_VERSION = 1


@click.command("explain", epilog="Example: autodist explain strategy.json")
@click.argument("strategy", metavar="STRATEGY")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def explain(strategy: str, as_json: bool) -> None:
    """Show what the JSON file STRATEGY says about every variable."""
    from autodist import strategies

    explanation = strategies.explain(_load(strategy))
    if as_json:
        click.echo(_json(explanation))
        return
    from rich.console import Console

    console = Console()
    console.print(_table(explanation))
    console.print(_totals(explanation), markup=False, highlight=False, soft_wrap=True)


def _load(path: str) -> Strategy:
    """Load the strategy of the file; a builder alone says nothing about variables that nobody has named yet."""
    from pathlib import Path

    from autodist.errors import StrategyError
    from autodist.strategies import Strategy, builders

    known = [info.name for info in builders()]
    if not Path(path).exists() and path.partition("(")[0].strip() in known:
        raise StrategyError(
            f"`{path}` is a builder, allowed: a strategy's JSON file",
            hint="what a builder does depends on the model: every run keeps its strategy in its run directory",
        )
    return Strategy.load(path)


def _json(explanation: Explanation) -> str:
    from dataclasses import asdict

    return json.dumps({"schema_version": _SCHEMA_VERSION} | asdict(explanation), indent=2)


def _table(explanation: Explanation) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = explanation.rows
    columns: dict[str, Sequence[object]] = {
        "Variable": [row.variable if row.shard is None else f"{row.variable} [{row.shard}]" for row in rows],
        "Synchronizer": [row.synchronizer for row in rows],
        "Where": [row.where for row in rows],
        "Group": [row.group for row in rows],
        "Communicator": [row.communicator for row in rows],
        "Compressor": [row.compressor for row in rows],
    }
    used = {header: cells for header, cells in columns.items() if any(cell is not None for cell in cells)}
    table = Table(box=box.SIMPLE_HEAD)
    for header in used:
        table.add_column(header, min_width=len(header), overflow="fold")
    for cells in zip(*used.values(), strict=True):
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells))
    return table


def _totals(explanation: Explanation) -> str:
    kinds = [f"{count} {kind}" for kind, count in explanation.num_shards_by_synchronizer.items()]
    homes = [f"{count} on {device}" for device, count in explanation.num_shards_by_destination.items()]
    lines = {
        "strategy": f"{explanation.id}  {explanation.builder}".rstrip(),
        "variables": f"{explanation.num_variables} ({', '.join(kinds)})" if kinds else f"{explanation.num_variables}",
        "servers": ", ".join(homes),
        "groups": f"{explanation.num_groups}" if explanation.num_groups else "",
        "replicas": f"{len(explanation.replicas)} ({', '.join(explanation.replicas)})",
        "loss, metrics": f"over {explanation.communicator}",
    }
    return "\n".join(f"{name:>13}  {value}" for name, value in lines.items() if value)
