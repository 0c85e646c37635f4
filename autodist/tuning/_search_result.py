"""The result of a search, and observers of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from autodist.search import Space, Trial, Verdict, drift_of


@dataclass(frozen=True)
class Baseline:
    """A strategy that users know, measured in the same search.

    Attributes:
        name: As users write it.
        trial: Its trial; that of another baseline if it is the same strategy. None if it was not tried.
        why_not: Why it does not fit the graph or the cluster, empty if it does.
    """

    name: str
    trial: Trial | None = None
    why_not: str = ""


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        verdict: The best trial, and how sure that is.
        trials: All trials, those of an earlier search that was taken up included.
        baselines: The strategies that users know.
        study: Its number in the store.
        duration_s: Duration of this search.
        starts: How often workers were started.
        batch_size: Examples in the global batch.
    """

    verdict: Verdict
    trials: tuple[Trial, ...]
    baselines: tuple[Baseline, ...]
    study: int
    duration_s: float
    starts: int
    batch_size: int

    @property
    def drift(self) -> float:
        """By which share the machines were slower at times, seen by measuring one strategy now and then."""
        return drift_of(self.trials).share

    @property
    def best(self) -> Trial:
        """The best trial."""
        return self.verdict.best

    @property
    def fastest_baseline(self) -> Baseline | None:
        """The fastest strategy that users know; None if none was measured."""
        measured = {b.trial.step_s: b for b in self.baselines if b.trial is not None and b.trial.step_s is not None}
        return measured[min(measured)] if measured else None


class SearchObserver(Protocol):
    """Watches a search; called from another thread than the one that started it."""

    def noticed(self, text: str) -> None:
        """Take a line about what happens before the first trial."""

    def captured(self, space: Space, earlier: Sequence[Trial]) -> None:
        """Take what is searched, and the trials of the search that is taken up."""

    def tried(self, trials: Sequence[Trial], left_s: float) -> None:
        """Take all trials so far, of which the last one has just ended, and the seconds that are left at most."""

    def again(self, trials: Sequence[Trial], left_s: float) -> None:
        """Take all trials, of which one has just been measured again, and the seconds that are left at most."""
