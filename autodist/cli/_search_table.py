"""The table at the end of a search: its best strategy next to those that users know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from autodist.cli._trials_command import row_of

if TYPE_CHECKING:
    from autodist.report import TrialRow
    from autodist.search import Bill, Trial
    from autodist.tuning import Baseline


def rows_of(best: Trial, baselines: Iterable[Baseline], bill: Bill) -> list[TrialRow]:
    """Return a line for the best trial and for each baseline; names of one strategy share a line.

    Args:
        best: The fastest trial, or the cheapest.
        baselines: The strategies that users know, as far as they were measured.
        bill: What training costs.
    """
    known: dict[int | str, TrialRow] = {}
    for baseline in baselines:
        row = _row(baseline, bill)
        key = row.outcome if row.number is None else row.number
        before = f"{known[key].origin}, " if key in known else ""
        known[key] = replace(row, origin=before + baseline.name)
    same = next((row for row in known.values() if row.number == best.number), None)
    first = replace(row_of(best, bill) if same is None else same, outcome="the best")
    return [first, *(row for row in known.values() if row is not same)]


def _row(baseline: Baseline, bill: Bill) -> TrialRow:
    from autodist.report import TrialRow

    if baseline.trial is None:
        return TrialRow(None, "", None, "", baseline.why_not or "not measured")
    return row_of(baseline.trial, bill)
