"""The end of a search: its best strategy next to those that users know, and how sure that is."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.cli._batch_sizes import BatchSearch, batch_json, show_batches
from autodist.cli._trials_command import row_of, trial_json
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.report import TrialRow
    from autodist.search import Bill, Trial, Verdict
    from autodist.tuning import Baseline, SearchResult

_SCHEMA_VERSION = 1
_TOLD_DRIFT = 0.03


def rows_of(best: Trial, baselines: Iterable[Baseline], bill: Bill, rivals: Iterable[Trial] = ()) -> list[TrialRow]:
    """Return a line for the best trial, each baseline and each rival; names of one strategy share a line.

    Args:
        best: The fastest trial, or the cheapest.
        baselines: The strategies that users know, as far as they were measured.
        bill: What training costs.
        rivals: Other trials with which the best was compared.
    """
    known: dict[int | str, TrialRow] = {}
    for baseline in baselines:
        row = _row(baseline, bill)
        key = row.outcome if row.number is None else row.number
        before = f"{known[key].origin}, " if key in known else ""
        known[key] = replace(row, origin=before + baseline.name)
    same = next((row for row in known.values() if row.number == best.number), None)
    first = replace(row_of(best, bill) if same is None else same, outcome="the best")
    others = [row_of(trial, bill) for trial in rivals if trial.number not in {best.number, *known}]
    return [first, *(row for row in known.values() if row is not same), *others]


def _row(baseline: Baseline, bill: Bill) -> TrialRow:
    from autodist.report import TrialRow

    if baseline.trial is None:
        return TrialRow(None, "", None, "", baseline.why_not or "not measured")
    return row_of(baseline.trial, bill)


def show_found(
    found: Sequence[BatchSearch], bill: Bill, store: Path, saved: Path | None, as_json: bool, command: str
) -> None:
    """Print the result of a search: a table with notes, or JSON.

    Args:
        found: The search of each batch size, the fastest first.
        bill: What training costs.
        store: Where the trials are.
        saved: Where the best strategy is; None if it could not be written.
        as_json: Whether programs read it.
        command: The command that trains with it.
    """
    from autodist.report import output_console, show_trials

    result = found[0].result
    if as_json:
        click.echo(json.dumps(_json(result, bill, saved, command) | batch_json(found), indent=2))
        return
    show_batches(found)
    reference = result.fastest_baseline
    reference_s = None if reference is None or reference.trial is None else reference.trial.step_s
    rivals = [trial for trial, _ in result.verdict.rivals]
    show_trials(rows_of(result.best, result.baselines, bill, rivals), reference_s, unit=bill.unit)
    console = output_console()
    console.print(result.verdict.text)
    if result.drift >= _TOLD_DRIFT:
        console.print(f"the machines' speed changed by {result.drift:.0%} meanwhile, by what a reference strategy took")
    took = f"{counted(len(result.trials), 'trial')} in {result.duration_s:.0f} s"
    console.print(f"{took}, kept as study {result.study}; `{_listing(store, result.study)}` lists them", soft_wrap=True)
    if saved is not None:
        console.print(f"saved {saved}")
        console.print(f"next: {command}")


def _listing(store: Path, study: int) -> str:
    return shlex.join(["autodist", "trials", "--study", str(study), "--store", str(store)])


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    rivals = [{"number": trial.number} | asdict(found) for trial, found in verdict.rivals]
    known = {"is_confirmed": verdict.is_confirmed, "is_sure": verdict.is_sure, "text": verdict.text}
    return known | {"rivals": [{k: v if math.isfinite(v) else None for k, v in row.items()} for row in rivals]}


def _json(result: SearchResult, bill: Bill, saved: Path | None, command: str) -> dict[str, Any]:
    return {
        "schema_version": _SCHEMA_VERSION,
        "best": trial_json(result.best, bill),
        "verdict": _verdict_json(result.verdict),
        "baselines": [
            {"name": b.name, "why_not": b.why_not or None, "trial": b.trial and trial_json(b.trial, bill)}
            for b in result.baselines
        ],
        "drift": round(result.drift, 4),
        "trials": len(result.trials),
        "study": result.study,
        "duration_s": round(result.duration_s, 1),
        "starts": result.starts,
        "saved": saved and str(saved),
        "next": saved and command,
    }
