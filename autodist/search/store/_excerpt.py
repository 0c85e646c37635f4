"""The part of a trial store that a choice within seconds needs: to read here, or to send to another machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from autodist.graph import without_directories
from autodist.resource_spec import ResourceSpec
from autodist.search.store._retargeting import without_access
from autodist.search.store._store import Known, TrialStore
from autodist.search.store._trial_rows import FLOOR

_MOST_LESSONS = 300
"""Measured strategies, of all graphs and clusters together. More would take longer than a choice may."""
_MOST_OF_EACH = 60
"""The most trials of one graph on one cluster."""
_MOST_CHARACTERS = 8_000_000
"""The most characters of the strategies' texts, which can be read within two seconds."""
_FASTEST = 12
"""The number of fastest trials of each study; several, since the fastest may break rules or not fit."""


@dataclass
class ExcerptBounds:
    """Bounds of the trials that are read and learned from while a user waits for a choice."""

    trials: int = _MOST_LESSONS
    characters: int = _MOST_CHARACTERS

    def share(self, known: list[Known]) -> list[Known]:
        """Trials at even distances from the whole of a data set."""
        if not known:
            return []
        fit = self.characters * len(known) // sum(one.size for one in known)
        wanted = min(_MOST_OF_EACH, self.trials, fit, len(known))
        some = [known[n] for n in np.linspace(0, len(known) - 1, wanted, dtype=int)] if wanted > 1 else []
        self.trials -= len(some)
        self.characters -= sum(one.size for one in some)
        return some


def excerpt(store: TrialStore, path: str | os.PathLike[str]) -> None:
    """Write a store with all studies of another one, but only those of their trials that a choice may need.

    These are the fastest of each study, and some to learn from, of the latest studies first. Strategies are copied
    unread, so that a thousand large ones take no longer than a few. As in a file of studies, there are neither logins
    nor environment variables.

    Raises:
        GraphError: A graph is damaged.
        StoreError: A store can't be read or written.
    """
    allowance = ExcerptBounds()
    studies = store.studies()
    chosen: dict[int, set[int]] = {}
    for study in reversed(studies):
        known = store.measured(study)
        fastest = sorted(known, key=lambda one: (not one.is_confirmed, one.step_s))[:_FASTEST]
        numbers = {one.number for one in (*fastest, *allowance.share(known))}
        chosen[study.id] = numbers | {FLOOR, *store.carriers(study).values()}  # shows what was tried
    with TrialStore(path) as copy:
        for study in studies:
            spec = without_access(ResourceSpec.from_json(study.spec))
            about = spec, study.batch_size, study.label, study.rules, study.profile
            added = copy.study(without_directories(store.graph(study)), study.graph, *about)
            copy.bring(added, store, study, chosen[study.id])
