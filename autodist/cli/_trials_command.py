"""``autodist trials``: what searches have measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autodist.cli.options import bill_of, check_output, debug_option, examples_option, make_directory_of
from autodist.errors import UsageError
from autodist.installation import trials_file
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.report import TrialRow
    from autodist.search import Bill, Study, Trial, TrialStore

_SCHEMA_VERSION = 1
_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_option(command: _Command) -> _Command:
    """Add ``--store``."""
    return click.option(
        "--store",
        metavar="FILE",
        default=trials_file,
        show_default="runs/trials.db",
        help="File that keeps the trials; AUTODIST_STORE names another default.",
    )(command)


def study_option(command: _Command) -> _Command:
    """Add ``--study``."""
    return click.option("--study", metavar="N", type=int, help="Number of the search. Default: the last one.")(command)


@click.command("trials", epilog="Example: autodist trials --study 2")
@store_option
@study_option
@examples_option
@click.option("--studies", is_flag=True, help="List the searches instead.")
@click.option("--export", "target", metavar="FILE", help="Write the searches, or that of `--study`, into a small file.")
@click.option(
    "--import",
    "sources",
    metavar="FILE",
    multiple=True,
    help="Add the searches of such a file, or of another store. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for spreadsheets and pandas.")
@debug_option
def trials(
    store: str,
    study: int | None,
    examples: int | None,
    studies: bool,
    target: str | None,
    sources: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
) -> None:
    """List the trials of a search, the fastest first; or take searches from one store to another."""
    _refuse_contradictions(study, studies, target, sources, {"--json": as_json, "--csv": as_csv})
    if sources:
        _import(store, sources)
        return
    from autodist.report import show_trials
    from autodist.search import BASELINE

    exported = check_output(target, ".zip", "--export")
    with open_store(store) as opened:
        if exported is not None:
            _export(opened, study, exported)
            return
        if studies:
            _show_studies(opened, as_json)
            return
        chosen = the_study(opened, study)
        found = sorted(opened.trials(chosen), key=lambda trial: (trial.step_s is None, trial.step_s or 0.0))
    bill = bill_of(chosen, examples)
    if as_csv:
        _print_csv(found)
        return
    if as_json:
        rows = [trial_json(trial, bill) for trial in found]
        content = {"schema_version": _SCHEMA_VERSION, "study": chosen.id, "trials": rows}
        click.echo(json.dumps(content, indent=2))
        return
    fastest = min((t.step_s for t in found if t.step_s is not None and t.origin.startswith(BASELINE)), default=None)
    show_trials([row_of(trial, bill) for trial in found], fastest, unit=bill.unit)


def _refuse_contradictions(
    study: int | None, studies: bool, target: str | None, sources: tuple[str, ...], forms: dict[str, bool]
) -> None:
    """Refuse options that mean nothing together."""
    acts = {"--import": bool(sources), "--export": target is not None, "--studies": studies}
    given = [f"`{name}`" for name, is_given in acts.items() if is_given]
    mistakes = [f"{' and '.join(given)} are different things to do"] if len(given) > 1 else []
    if study is not None and (sources or studies):
        mistakes.append(f"`--study` means nothing with {given[0]}")
    wanted = [name for name, is_given in forms.items() if is_given]
    if len(wanted) > 1:
        mistakes.append("`--json` and `--csv` are two forms of the same")
    for name in wanted:
        if sources or target is not None or (studies and name == "--csv"):
            mistakes.append(f"`{name}` means nothing with {given[0]}")
    if mistakes:
        raise UsageError("\n".join(mistakes), hint="give them one after the other")


def _import(store: str, sources: tuple[str, ...]) -> None:
    from autodist.search import TrialStore, add_studies, read_studies

    missing = [f"`{source}`" for source in sources if not Path(source).is_file()]
    if missing:
        raise UsageError(f"there is no file {', '.join(missing)}", hint="make one by `autodist trials --export FILE`")
    itself = [source for source in sources if Path(store).exists() and Path(store).samefile(source)]
    if itself:
        raise UsageError(f"`{itself[0]}` is the store itself", hint="name another one by `--store` or `--import`")
    found = read_studies(*sources)  # before there is a store that would stay empty
    if not found:
        raise UsageError(f"there are no searches in {', '.join(sources)}")
    with TrialStore(store) as opened:
        before = {study.id: len(opened.trials(study)) for study in opened.studies()}
        for study in add_studies(opened, found):
            there = len(opened.trials(study))
            new = f"{there - before.get(study.id, 0):,} of them new" if there else "none new"
            click.echo(f"study {study.id}: {study.label}, {counted(there, 'trial')}, {new}")


def _print_csv(trials: list[Trial]) -> None:
    from autodist.search import trial_columns

    columns = trial_columns(trials)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(zip(*columns.values(), strict=True))
    click.echo(text.getvalue(), nl=False)


def _export(store: TrialStore, number: int | None, target: Path) -> None:
    from autodist.search import export_studies

    make_directory_of(target, "give another file by `--export`")
    chosen = store.studies() if number is None else [the_study(store, number)]
    export_studies(store, chosen, target)
    click.echo(f"saved {counted(len(chosen), 'search', 'searches')} in {target}")


def open_store(path: str) -> TrialStore:
    """Open a store that is there.

    Raises:
        UsageError: It is not.
    """
    from autodist.search import TrialStore

    if Path(path).is_dir():
        raise UsageError(f"`--store {path}` is a directory, it must be a file")
    if not Path(path).is_file():
        raise UsageError(f"there is no trial store `{path}`", hint="give `--store`, or make one by `autodist search`")
    return TrialStore(path)


def the_study(store: TrialStore, number: int | None) -> Study:
    """Return the study of a number, or the last one.

    Raises:
        UsageError: There is none.
    """
    studies = store.studies()
    found = [study for study in studies if number is None or study.id == number]
    if not studies:
        raise UsageError(f"`{store.path}` has no searches so far", hint="make one by `autodist search`")
    if not found:
        known = ", ".join(str(study.id) for study in studies)
        raise UsageError(
            f"`{store.path}` has no study {number}, allowed: {known}", hint="see `autodist trials --studies`"
        )
    return found[-1]


def row_of(trial: Trial, bill: Bill) -> TrialRow:
    """Return a trial as a line of a table."""
    from autodist.report import TrialRow
    from autodist.search import Failure

    outcome = f"{trial.outcome.reason}: {trial.outcome.headline}" if isinstance(trial.outcome, Failure) else ""
    cost = bill.of(trial.strategy, trial.step_s)
    return TrialRow(trial.number, trial.origin, trial.step_s, trial.strategy.mixture, outcome, cost)


def trial_json(trial: Trial, bill: Bill) -> dict[str, Any]:
    """Return a trial as plain data."""
    from autodist.search import Failure

    outcome = trial.outcome
    row: dict[str, Any] = {"number": trial.number, "origin": trial.origin, "strategy": trial.strategy.id}
    row |= {"mixture": trial.strategy.mixture, "predicted_s": trial.predicted, "step_s": trial.step_s}
    row |= {f"cost_per_{bill.key}": bill.of(trial.strategy, trial.step_s)}
    if isinstance(outcome, Failure):
        return row | {"reason": outcome.reason, "message": outcome.message}
    row |= {"steps_s": outcome.steps_s, "warm_up": outcome.warm_up, "prepared_s": outcome.prepared_s}
    return row | {"again": [{"round": one.round, "steps_s": one.steps_s} for one in trial.again]}


def _show_studies(store: TrialStore, as_json: bool) -> None:
    from autodist.report import fitted_table, table_console
    from autodist.resource_spec import ResourceSpec

    rows = [
        {
            "study": study.id,
            "label": study.label,
            "graph": study.graph[:12],
            "hosts": len(ResourceSpec.from_json(study.spec).hosts),
            "batch_size": study.batch_size,
            "trials": len(store.trials(study)),
            "rules": [str(rule) for rule in study.rules],
        }
        for study in store.studies()
    ]
    if as_json:
        click.echo(json.dumps({"schema_version": _SCHEMA_VERSION, "studies": rows}, indent=2))
        return
    console = table_console()
    columns = {
        title: [str(row[key]) for row in rows]
        for title, key in (
            ("Study", "study"), ("Script", "label"), ("Graph", "graph"), ("Hosts", "hosts"), ("Batch", "batch_size"),
            ("Trials", "trials"),
        )
    }  # fmt: skip
    console.print(
        fitted_table(columns, console.width, right=("Study", "Hosts", "Batch", "Trials"), shrink={"Script": 12})
    )
