"""``autodist explain``: what a strategy says, variable by variable, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from autodist.cli.options import Subject, SubjectOptions, debug_option, find_subject, subject_options

if TYPE_CHECKING:
    from autodist.strategies import Explanation

_SCHEMA_VERSION = 3
_DOES_NOT_FIT = 3


@click.command("explain", epilog="Example: autodist explain latest")
@click.argument("strategy", metavar="STRATEGY")
@subject_options
@click.option("--all", "show_all", is_flag=True, help="One line per variable and link, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@debug_option
def explain(
    strategy: str,
    options: SubjectOptions,
    show_all: bool,
    as_json: bool,
) -> int:
    """Show what STRATEGY says about every variable, and what it sends.

    STRATEGY is a strategy's JSON file, a run (its directory, its name, or `latest`), or, with a graph, a builder such
    as 'AllReduce(chunk_size=64)'. With a graph and a cluster the table has sizes and the bytes that the busiest host
    sends per step, and verification runs. Runs keep both in their directory.

    Exits with 3 if verification finds that the strategy does not fit.
    """
    from autodist import strategies

    subject = find_subject([strategy], options)
    explanation = strategies.explain(
        subject.strategies[0],
        subject.graph,
        subject.spec,
        batch_size=subject.batch_size,
        rows=subject.rows,
    )
    memory_bytes = None if explanation.problems else _memory_bytes(subject)
    explanation = replace(explanation, exchanged=subject.exchanged, memory_bytes=memory_bytes)
    if as_json:
        click.echo(_json(explanation))
    else:
        from autodist.report import show_explanation

        show_explanation(explanation, show_all=show_all)
    return _DOES_NOT_FIT if explanation.problems else 0


def _memory_bytes(subject: Subject) -> dict[str, float] | None:
    """By host, what its worker needs; None without a graph and a cluster."""
    from autodist.simulator import Domain, host_needs

    if subject.graph is None or subject.spec is None:
        return None
    domain = Domain.of(subject.graph, subject.spec, batch_size=subject.batch_size)
    return host_needs(subject.strategies[0], domain)


def _json(explanation: Explanation) -> str:
    from dataclasses import asdict

    return json.dumps({"schema_version": _SCHEMA_VERSION} | asdict(explanation), indent=2)
