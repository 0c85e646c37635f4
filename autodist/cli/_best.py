"""``autodist best``: the fastest strategy that a search has measured, as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from autodist.carriers import FORMER
from autodist.cli._trials_command import open_store, store_option, study_option, the_study
from autodist.cli.options import (
    bill_of,
    check_output,
    debug_option,
    examples_option,
    utility_for,
    utility_option,
    write_output,
)
from autodist.errors import UsageError
from autodist.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autodist.search import Bill, Study, Trial, Utility


@click.command("best", epilog="Example: autodist best > best.json")
@store_option
@study_option
@click.option("--trial", metavar="N", type=int, help="This trial instead of the best.")
@click.option("--any", "is_any", is_flag=True, help="The best of all, whether or not it obeys the search's rules.")
@utility_option
@examples_option
@click.option("--out", metavar="FILE", help="Write it there instead of printing it.")
@debug_option
def best(
    store: str,
    study: int | None,
    trial: int | None,
    is_any: bool,
    utility: str,
    examples: int | None,
    out: str | None,
) -> None:
    """Print the best strategy of a search as JSON, for `autodist run --strategy` and `autodist explain`.

    If the search has rules (--fix, --exclude), it is the best that obeys them. Its time and cost go to standard error.
    """
    target = check_output(out, ".json")
    with open_store(store) as opened:
        chosen = the_study(opened, study)
        found = opened.trials(chosen)
    wanted = {t.number: t for t in found}.get(trial) if trial is not None else None
    if trial is None:
        wanted = _best_of(found, chosen, is_any, utility_for(utility, chosen))
    if wanted is None:
        what = "measured trial" if trial is None else f"trial {trial}"
        raise UsageError(
            f"study {chosen.id} has no {what}, but {counted(len(found), 'trial')}", hint="see `autodist trials`"
        )
    _account(wanted, bill_of(chosen, examples))
    for former in filter(None, map(FORMER.get, wanted.strategy.carriers)):
        click.echo(f"autodist: this version can't run it: {former}", err=True)
    if target is None:
        click.echo(wanted.strategy.to_json(), nl=False)
        return
    write_output(target, wanted.strategy.to_json())
    click.echo(f"saved {out}", err=True)


def _account(trial: Trial, bill: Bill) -> None:
    from autodist.report import error_console, milliseconds, money

    takes = "it failed" if trial.step_s is None else f"{milliseconds(trial.step_s)} ms/step"
    cost = bill.of(trial.strategy, trial.step_s)
    costs = "" if cost is None else f", {bill.unit} cost {money(cost)}"
    error_console().print(f"autodist: trial {trial.number} by {trial.origin}: {takes}{costs}", style="dim")


def _best_of(trials: Sequence[Trial], study: Study, is_any: bool, utility: Utility) -> Trial | None:
    """Return the best trial; says on standard error how sure that is, and what rules have to do with it."""
    from autodist.search import obeys, verdict_of

    verdict = verdict_of(trials, () if is_any else study.rules, utility)
    found = None if verdict is None else verdict.best
    if verdict is not None:
        click.echo(f"autodist: {verdict.text}", err=True)
    if found is not None and study.rules and not is_any:
        rules = " ".join(map(str, study.rules))
        if obeys(found.strategy, study.rules):
            click.echo(f"autodist: the best that obeys {rules}; `--any` takes the best of all", err=True)
        else:
            click.echo(f"autodist: no measured trial obeys {rules}; this is the best of all", err=True)
    return found
