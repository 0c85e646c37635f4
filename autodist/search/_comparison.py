"""Compares simulators with each other on the trials of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, final

from autodist.search.store import DataSet
from autodist.simulator import (
    Accuracy,
    AnalyticSimulator,
    EnsembleSimulator,
    EventSimulator,
    ForestSimulator,
    GraphAttentionSimulator,
    LinearSimulator,
    RecurrentSimulator,
    Simulator,
    cross_validated,
    transferred,
)

if TYPE_CHECKING:
    from autodist.simulator import Domain, Floats, ShardTable

Split = Literal["trials", "cluster", "graph"]
SPLITS: tuple[Split, ...] = ("trials", "cluster", "graph")
"""The part of the data that a simulator has not seen: some of the trials, the cluster, or the graph."""


@dataclass(frozen=True)
class Comparison:
    """How one simulator ranks the strategies of one graph on one cluster.

    Attributes:
        simulator: Its name in :data:`CONTESTANTS`.
        data: The data set that is ranked.
        split: The part that it has not seen; ``"given"`` if the caller has chosen what it has seen.
        accuracy: How well it ranks.
    """

    simulator: str
    data: DataSet
    split: Split | Literal["given"]
    accuracy: Accuracy


@final
class _Fixed(Simulator):
    """A simulator that trials do not change."""

    name: ClassVar[str] = "fixed"

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        return self._simulator.score(table, domain, num_strategies)


CONTESTANTS: Mapping[str, Callable[[], Simulator]] = {
    "analytic:fixed": lambda: _Fixed(AnalyticSimulator()),
    "analytic": AnalyticSimulator,
    "events:fixed": lambda: _Fixed(EventSimulator()),
    "events": EventSimulator,
    "linear": LinearSimulator,
    "rnn": RecurrentSimulator,
    "rnn:raw": partial(RecurrentSimulator, features="raw"),
    "rnn:predefined": partial(RecurrentSimulator, features="predefined"),
    "gat": GraphAttentionSimulator,
    "forest": ForestSimulator,
    "ensemble": EnsembleSimulator,
}
"""By name, the simulators that can be compared: formulas with their own constants and with constants fitted to
trials, and learning ones; the recurrent one also with a single kind of features (thesis table 8.3)."""


def compare(
    sets: Sequence[DataSet],
    names: Sequence[str],
    splits: Sequence[Split] = SPLITS,
    *,
    folds: int = 5,
    seed: int = 0,
    least_gap: float = 0.0,
) -> Iterator[Comparison]:
    """Judge simulators on strategies that they have not seen, one set after the other.

    Args:
        sets: The measured trials, by graph and cluster.
        names: Names of simulators, from :data:`CONTESTANTS`.
        splits: ``"trials"``: each part of a set is ranked after the others were seen. ``"cluster"`` and ``"graph"``: a
            set is ranked after all those of other clusters, or of other graphs, were seen; left out where there are
            none.
        folds: In how many parts a set is cut.
        seed: Seed of the cut.
        least_gap: Pairs closer than this share of their time are not counted.
    """
    for split in splits:
        for data in sets:
            sources = [other.measured for other in sets if _is_source(other, data, split)]
            if split != "trials" and not sources:
                continue
            for name in names:
                make = CONTESTANTS[name]
                if split == "trials":
                    found = cross_validated(make, data.measured, folds=folds, seed=seed, least_gap=least_gap)
                else:
                    found = transferred(make, sources, data.measured, least_gap=least_gap)
                yield Comparison(name, data, split, found)


def compare_given(
    sources: Sequence[DataSet], targets: Sequence[DataSet], names: Sequence[str], *, least_gap: float = 0.0
) -> Iterator[Comparison]:
    """Judge simulators on some sets after they have seen others (thesis table 8.4).

    Args:
        sources: The data sets that they have seen.
        targets: The data sets that they rank.
        names: Names of simulators, from :data:`CONTESTANTS`.
        least_gap: Pairs closer than this share of their time are not counted.
    """
    seen = [data.measured for data in sources]
    for data in targets:
        for name in names:
            found = transferred(CONTESTANTS[name], seen, data.measured, least_gap=least_gap)
            yield Comparison(name, data, "given", found)


def count_of_comparisons(sets: Sequence[DataSet], splits: Iterable[Split]) -> int:
    """How many comparisons :func:`compare` yields for each simulator."""
    return sum(
        split == "trials" or any(_is_source(other, data, split) for other in sets) for split in splits for data in sets
    )


def _is_source(other: DataSet, target: DataSet, split: Split) -> bool:
    return other.graph != target.graph if split == "graph" else other.spec != target.spec
