"""A stored search for use in Python: its best trial, its trials, and a table of them."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autodist.errors import NotInstalled, StoreError
from autodist.installation import trials_file
from autodist.search._verdict import Verdict, verdict_of
from autodist.search.space import Rule
from autodist.search.store import Failure, Measurement, Study, Trial, TrialStore
from autodist.strategies import Strategy


class TrialsView(ABC):
    """Trials of a search: the best one, and a table of all."""

    @property
    @abstractmethod
    def trials(self) -> tuple[Trial, ...]:
        """All of them, in the order of their numbers."""

    @property
    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """The choices that are pinned and forbidden."""

    @property
    def verdict(self) -> Verdict:
        """The best trial, and how sure that is.

        Raises:
            StoreError: Nothing was measured.
        """
        found = verdict_of(self.trials, self.rules)
        if found is None:
            raise StoreError(f"{self} has no measured trial", hint="go on by `autodist search --continue`")
        return found

    @property
    def best_trial(self) -> Trial:
        """The best trial: of those that were measured again, if any were."""
        return self.verdict.best

    @property
    def best_strategy(self) -> Strategy:
        """Its strategy."""
        return self.best_trial.strategy

    @property
    def best_value(self) -> float:
        """Seconds of its step."""
        return self.best_trial.step_s or 0.0

    @property
    def best_params(self) -> dict[str, str]:
        """By variable, how the best trial synchronizes it."""
        return self.best_trial.params

    def columns(self) -> dict[str, list[Any]]:
        """The trials as columns, for ``pandas.DataFrame(study.columns())`` or whatever else reads tables."""
        return trial_columns(self.trials)

    def trials_dataframe(self) -> Any:
        """The trials as a table of pandas, one row for each, by number.

        Raises:
            NotInstalled: Pandas is missing.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise NotInstalled("pandas is not installed", hint="`pip install pandas`, or take `columns()`") from error
        return pandas.DataFrame(self.columns()).set_index("number")


@dataclass(frozen=True)
class StoredStudy(TrialsView):
    """A search with its trials, as they are in a store.

    Attributes:
        study: The search's graph, cluster, batch size and rules.
        kept: All of its trials, in the order of their numbers.
    """

    study: Study
    kept: tuple[Trial, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All of them, in the order of their numbers."""
        return self.kept

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The choices that are pinned and forbidden."""
        return self.study.rules

    def __str__(self) -> str:
        return f"study {self.study.id}"


def load_study(storage: str | os.PathLike[str] | None = None, number: int | None = None) -> StoredStudy:
    """Return a search of a trial store.

    Args:
        storage: The store's file, ``runs/trials.db`` by default.
        number: The search's number; the last search by default.

    Raises:
        StoreError: There is no store, or no such search.

    Example:
        >>> import tempfile
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.search import Measurement
        >>> from autodist.strategies import GraphConfig
        >>> strategy = Strategy(GraphConfig((), "tcp"), ())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with TrialStore(f"{folder}/trials.db") as store:
        ...         study = store.study(b"", "graph", ResourceSpec.local(2), 64, "train.py")
        ...         store.add(study, Trial(0, strategy, Measurement((0.2,)), "random"))
        ...     found = load_study(f"{folder}/trials.db")
        >>> found.best_value, found.columns()["origin"]
        (0.2, ['random'])
    """
    storage = storage or trials_file()
    if not Path(storage).is_file():
        raise StoreError(f"there is no trial store `{storage}`", hint="make one by `autodist search`")
    with TrialStore(storage) as store:
        studies = store.studies()
        found = [study for study in studies if number in (None, study.id)]
        if not found:
            known = ", ".join(str(study.id) for study in studies) or "there are none so far"
            raise StoreError(f"`{storage}` has no study {number}, allowed: {known}")
        return StoredStudy(found[-1], tuple(store.trials(found[-1])))


_COLUMNS: Mapping[str, Callable[[Trial], Any]] = {
    "number": lambda trial: trial.number,
    "origin": lambda trial: trial.origin,
    "mixture": lambda trial: trial.strategy.mixture,
    "carriers": lambda trial: "+".join(trial.strategy.carriers),
    "step_s": lambda trial: trial.step_s,
    "first_step_s": lambda trial: None if isinstance(trial.outcome, Failure) else trial.outcome.step_s,
    "measurements": lambda trial: len(trial.again) + isinstance(trial.outcome, Measurement),
    "predicted": lambda trial: trial.predicted,
    "failed": lambda trial: trial.outcome.reason if isinstance(trial.outcome, Failure) else None,
    "ended_s": lambda trial: None if isinstance(trial.outcome, Failure) else trial.outcome.ended_s or None,
    "version": lambda trial: None if isinstance(trial.outcome, Failure) else trial.outcome.version,
    "strategy": lambda trial: trial.strategy.id,
}


def trial_columns(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """Trials as columns of a table: plain numbers and texts, None for what a trial does not have."""
    return {name: [of(trial) for trial in trials] for name, of in _COLUMNS.items()}
