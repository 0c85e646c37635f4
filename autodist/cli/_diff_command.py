"""``autodist diff``: what differs between two strategies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from autodist.cli.options import SubjectOptions, debug_option, find_subject, subject_options

if TYPE_CHECKING:
    from autodist.strategies import StrategyDiff

_SCHEMA_VERSION = 1
_DIFFER = 1


@click.command("diff", epilog="Example: autodist diff AllReduce PSLoadBalancing --graph latest")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@subject_options
@click.option("--all", "show_all", is_flag=True, help="All differences, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def diff(
    a: str,
    b: str,
    options: SubjectOptions,
    show_all: bool,
    as_json: bool,
) -> int:
    """Show what differs between the strategies A and B.

    Each is a strategy's JSON file, a run (its directory, its name, or `latest`), or, with a graph, a builder such as
    'AllReduce(chunk_size=64)'.
    With a graph and a cluster the bytes that each host sends per step are shown as well.

    Exits like diff: 0 if both say the same, 1 if not, 2 on errors.
    """
    from autodist import strategies

    subject = find_subject([a, b], options)
    one, other = subject.strategies
    found = strategies.diff(
        one,
        other,
        subject.graph,
        subject.spec,
        batch_size=subject.batch_size,
        rows=subject.rows,
    )
    if as_json:
        click.echo(_json(found))
    else:
        from autodist.report import show_difference

        show_difference(found, (a, b), show_all=show_all)
    return 0 if found.is_same else _DIFFER


def _json(found: StrategyDiff) -> str:
    from dataclasses import asdict

    return json.dumps({"schema_version": _SCHEMA_VERSION, "same": found.is_same} | asdict(found), indent=2)
