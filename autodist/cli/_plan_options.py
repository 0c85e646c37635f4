"""Options of ``autodist search`` that say how algorithm 8 goes: for those who study it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from autodist.cli.options import Number

_Command = TypeVar("_Command", bound=Callable[..., Any])
PLAN_OPTIONS = ("scored", "qualified", "at-once", "alpha", "similarity", "no-constraints")
"""Their names, without dashes."""


def plan_options(command: _Command) -> _Command:
    """Add N, M, K and α of algorithm 8, and what candidates are compared by."""
    number = click.IntRange(1)
    options = (
        click.option(
            "-N", "--scored", metavar="N", type=number, default=3000, show_default=True,
            help="Number of proposals to score for each batch of trials.",
        ),
        click.option(
            "-M", "--qualified", metavar="N", type=number, default=200, show_default=True,
            help="Number of the best of these to choose candidates from.",
        ),
        click.option(
            "-K", "--at-once", metavar="N", type=number, default=10, show_default=True,
            help="Number of candidates to measure before the simulator learns from them.",
        ),
        click.option(
            "--alpha", metavar="A", type=Number(0), default=0.3, show_default=True,
            help="How much candidates that are alike count against each other; 0 takes the best scores alone.",
        ),
        click.option(
            "--similarity", type=click.Choice(["choices", "features"]), default="choices", show_default=True,
            help="How to compare candidates: by their choices, or by the features that the simulator sees.",
        ),
        click.option(
            "--no-constraints", is_flag=True,
            help="Draw servers and groups evenly, and not by what is known of good strategies: for comparison.",
        ),
    )  # fmt: skip
    decorated: Any = command
    for option in reversed(options):
        decorated = option(decorated)
    found: _Command = decorated
    return found
