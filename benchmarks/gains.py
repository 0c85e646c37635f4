"""What searches have gained over Horovod and parameter servers: the published searches (`benchmarks/searches`).

Nothing is timed. Measuring them takes an hour: `scripts/collect-trials`, as `benchmarks/searches/README.md` says.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from measuring import Result, Row

from autodist.report.plots import Searched
from autodist.search import BASELINE, TrialStore, import_studies

_SEARCHES = Path(__file__).resolve().parent / "searches"
_RIVALS = ("AllReduce(communicator='horovod')", "PSLoadBalancing", "PartitionedPS")
"""Horovod, and who tunes a parameter server by hand: balanced, or with variables cut as well."""
_MOST_TIME = 1 / 1.3
_MOST_MISSES = 0.5
_SOON = 50
_MOST_LATE = 0.5


def measure(quick: bool) -> Result:
    """Run the benchmark; `quick` makes no difference."""
    rows = [line for name, searches in published().items() for line in _rows(name, searches)]
    notes = (
        "time of a step as a share of that of the better of Horovod and two kinds of parameter servers, each measured "
        f"in the same search; late is what of the gain is missing after {_SOON} trials",
        "means of the searches that differ in their seed alone, beside them the least and the most",
    )
    return Result("gains", tuple(rows), notes)


def published() -> dict[str, list[Searched]]:
    """The published searches, by graph and cluster."""
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        for path in sorted(_SEARCHES.glob("*.zip")):
            import_studies(store, path)
        found = [Searched(study, tuple(store.trials(study))) for study in store.studies()]
    if not found:
        raise RuntimeError(f"no searches are published in `{_SEARCHES}`: make some by `scripts/collect-trials`")
    found.sort(key=_name)
    return {name: list(searches) for name, searches in groupby(found, _name)}


def _name(searched: Searched) -> str:
    study = searched.study
    return f"{study.label}, {study.graph[:6]}"


def _rows(name: str, searches: Sequence[Searched]) -> list[Row]:
    return [
        _mean(f"{name}: time of the best", [_time(one) for one in searches], _MOST_TIME),
        _mean(f"{name}: misses", [_misses(one) for one in searches], _MOST_MISSES),
        _mean(f"{name}: late", [_late(one) for one in searches], _MOST_LATE),
    ]


def _mean(name: str, values: Sequence[float], target: float) -> Row:
    return Row(name, statistics.fmean(values), min(values), max(values), "", target=target)


def _shares(searched: Searched) -> list[float | None]:
    """By trial that the search proposed, its step time as a share of the rivals'."""
    rivals_s = min(searched.baselines[name] for name in _RIVALS)
    proposed = (trial for trial in searched.trials if not trial.origin.startswith(BASELINE))
    return [None if trial.step_s is None else trial.step_s / rivals_s for trial in proposed]


def _time(searched: Searched) -> float:
    return min(share for share in _shares(searched) if share is not None)


def _misses(searched: Searched) -> float:
    return statistics.fmean(share is None or share >= 1 for share in _shares(searched))


def _late(searched: Searched) -> float:
    shares = _shares(searched)
    speeds = [max((1 / share for share in part if share is not None), default=0.0) for part in (shares[:_SOON], shares)]
    return (speeds[1] - max(1.0, speeds[0])) / max(1e-9, speeds[1] - 1)
