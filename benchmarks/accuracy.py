"""How well simulators rank the published trials (`benchmarks/trials`), always those that they have not seen.

Nothing is timed: the figures are the same on any machine with the same versions of NumPy, scikit-learn and Keras.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import Result, Row, progress, row

from autodist.search import Comparison, DataSet, Split, TrialStore, compare, data_sets, import_studies
from autodist.simulator import EventSimulator, transferred

_TRIALS = Path(__file__).resolve().parent / "trials"
_SIMULATORS = ("analytic", "events:fixed", "events", "linear", "forest", "rnn", "rnn:raw", "rnn:predefined", "gat")
_QUICK = ("events:fixed", "events")
_JUDGED = "events"
"""The simulator of which the figures are demanded: that by which searches choose if nothing is said."""
_MOST_WRONG: dict[Split, float] = {"trials": 0.15, "cluster": 0.20}
_MOST_WRONG_ON_AVERAGE: dict[Split, float] = {"trials": 0.10}
_FAMILIES = (("bert_3", "bert_6"), ("ncf_dense", "ncf_sparse"), ("ncf_sparse", "ncf_dense"))
"""Models on `slow`: of which there are trials, and which of the same family is ranked by them."""
_MOST_WRONG_IN_FAMILY = 0.25
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
    rows += _family_rows()
    trials = sum(len(data.measured) for data in sets)
    notes = (
        f"{trials} strategies of {len(sets)} graphs on clusters; the share of pairs whose order is wrong",
        "the value is the mean over the sets, beside it the best and the worst; five folds",
    )
    return Result("accuracy", tuple(rows), notes)


def published() -> list[DataSet]:
    """The trials that are published."""
    return _read(sorted(_TRIALS.glob("*.zip")))


def _read(paths: Sequence[Path]) -> list[DataSet]:
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        import_studies(store, *paths)
        return list(data_sets(store))


def _family_rows() -> list[Row]:
    found = _read([_TRIALS / "slow.zip", _TRIALS / "family" / "bert_6.zip"])
    sets = {data.label.split()[1]: data.measured for data in found}
    rows = []
    for known, unseen in _FAMILIES:
        wrong = 1 - transferred(EventSimulator, [sets[known]], sets[unseen]).pairwise
        rows.append(row(f"events, {unseen} by trials of {known}", [wrong], "", target=_MOST_WRONG_IN_FAMILY))
    return rows


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
