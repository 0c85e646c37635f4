"""``autodist strategies``: the builders there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from autodist.cli.options import debug_option

if TYPE_CHECKING:
    from autodist.strategies import BuilderInfo

_SCHEMA_VERSION = 1


@click.command("strategies", epilog="Example: autodist strategies AllReduce")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def strategies(name: str | None, as_json: bool) -> None:
    """List the strategy builders, one line each; with NAME that one, with its parameters and defaults."""
    from autodist.strategies import builders, get

    infos = builders()
    if name is not None:
        chosen = tuple(info for info in infos if info.name == name)
        if not chosen:
            get(name)  # says which ones there are
            raise click.UsageError(f"`{name}` is not a builder's name, see `autodist strategies`")
        infos = chosen
    if as_json:
        click.echo(_json(infos))
    elif name is None:
        _list(infos)
    else:
        _show(infos[0])


def _json(infos: tuple[BuilderInfo, ...]) -> str:
    rows = [{"name": i.name, "summary": i.summary, "parameters": dict(i.parameters)} for i in infos]
    return json.dumps({"schema_version": _SCHEMA_VERSION, "strategies": rows}, indent=2)


def _list(infos: tuple[BuilderInfo, ...]) -> None:
    from autodist.report import output_console

    console = output_console()
    width = max((len(info.name) for info in infos), default=0)
    for info in infos:
        console.print(f"{info.name:<{width}}  {info.summary}")


def _show(info: BuilderInfo) -> None:
    from autodist.report import output_console

    console = output_console()
    console.print(info.name, style="bold")
    console.print(f"  {info.summary}")
    width = max((len(name) for name in info.parameters), default=0)
    for name, default in info.parameters.items():
        console.print(f"  {name:<{width}}  {default!r}")
