"""How well simulators rank the published trials (`benchmarks/trials`), always those that they have not seen.

Nothing is timed: the figures are the same on any machine with the same versions of NumPy, scikit-learn and Keras.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import Result, Row, progress, row

from autodist.search import Comparison, DataSet, Split, TrialStore, compare, data_sets, import_studies

_TRIALS = Path(__file__).resolve().parent / "trials"
_SIMULATORS = ("analytic", "events:fixed", "events", "linear", "forest", "rnn", "rnn:raw", "rnn:predefined", "gat")
_QUICK = ("events:fixed", "events")
_JUDGED = "events"
"""The simulator of which the figures are demanded: that by which searches choose if nothing is said."""
_MOST_WRONG: dict[Split, float] = {"trials": 0.15, "cluster": 0.20}
_MOST_WRONG_ON_AVERAGE: dict[Split, float] = {"trials": 0.10}
_UNSEEN: dict[Split, str] = {"trials": "unseen trials", "cluster": "an unseen cluster", "graph": "an unseen graph"}


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    sets = published()
    rows: list[Row] = []
    splits: tuple[Split, ...] = ("trials",) if quick else ("trials", "cluster", "graph")
    for split in splits:
        names = _QUICK if quick else _SIMULATORS
        for name in names:
            progress(f"accuracy: {name}, {_UNSEEN[split]}")
            rows += _rows(name, split, list(compare(sets, [name], [split])))
    trials = sum(len(data.measured) for data in sets)
    notes = (
        f"{trials} strategies of {len(sets)} graphs on clusters; the share of pairs whose order is wrong",
        "the value is the mean over the sets, beside it the best and the worst; five folds",
    )
    return Result("accuracy", tuple(rows), notes)


def published() -> list[DataSet]:
    """The trials that are published."""
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        for path in sorted(_TRIALS.glob("*.zip")):
            import_studies(store, path)
        return list(data_sets(store))


def _rows(name: str, split: Split, found: Sequence[Comparison]) -> list[Row]:
    wrong = [1 - one.accuracy.pairwise for one in found]
    is_judged = name == _JUDGED
    title = f"{name}, {_UNSEEN[split]}"
    mean = sum(wrong) / len(wrong)
    average = Row(
        title, mean, min(wrong), max(wrong), "", target=_MOST_WRONG_ON_AVERAGE.get(split) if is_judged else None
    )
    if not is_judged or split not in _MOST_WRONG:
        return [average]
    return [average, row(f"{title}, the worst", [max(wrong)], "", target=_MOST_WRONG[split])]
