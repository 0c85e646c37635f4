"""``autodist best``: the fastest strategy that a search has measured, as a file."""

from __future__ import annotations

import click

from autodist.cli._options import debug_option
from autodist.cli._trials import open_store, store_option, study_option, the_study
from autodist.errors import UsageError

__all__ = ["best"]


@click.command("best", epilog="Example: autodist best > best.json")
@store_option
@study_option
@click.option("--trial", metavar="N", type=int, help="This trial instead of the fastest.")
@debug_option
def best(store: str, study: int | None, trial: int | None) -> None:
    """Print the fastest strategy of a search as JSON, for `autodist run --strategy` and `autodist explain`."""
    with open_store(store) as opened:
        chosen = the_study(opened, study)
        found = opened.trials(chosen)
    if trial is not None:
        wanted = [candidate for candidate in found if candidate.number == trial]
    else:
        wanted = sorted((t for t in found if t.step_s is not None), key=lambda t: t.step_s or 0.0)[:1]
    if not wanted:
        what = "measured trial" if trial is None else f"trial {trial}"
        raise UsageError(f"study {chosen.id} has no {what}, but {len(found)} trials", hint="see `autodist trials`")
    click.echo(wanted[0].strategy.to_json(), nl=False)
