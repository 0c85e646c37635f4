"""Published trials: searches with what they measured."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from autodist.report.plots import Searched
from autodist.search import TrialStore, data_sets, import_studies
from autodist.simulator import MeasuredStrategies

__all__ = ["CLUSTERS", "MODELS", "measured", "name_of", "searched"]

_BENCHMARKS = Path(__file__).resolve().parents[1]
CLUSTERS = {"slow": "one slow of three", "few": "two", "alike": "three alike"}
"""By the name of their file, the hosts of `scripts/collect-trials`."""
MODELS = {
    "vgg": "VGG",
    "ncf_sparse": "NCF, sparse",
    "ncf_dense": "NCF, dense",
    "lstm": "LSTM",
    "bert_3": "BERT of 3 layers",
    "resnet": "ResNet",
}


def name_of(label: str) -> str:
    """The model of a search, by what was typed."""
    return label.split()[1]


@cache
def searched(file: str) -> tuple[Searched, ...]:
    """The searches of a file of trials."""
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        studies = import_studies(store, _BENCHMARKS / file)
        return tuple(Searched(study, tuple(store.trials(study))) for study in studies)


@cache
def measured(file: str) -> dict[str, MeasuredStrategies]:
    """By model, what was measured in a file of trials."""

    def of(store: TrialStore) -> Iterator[tuple[str, MeasuredStrategies]]:
        for found in data_sets(store):
            yield name_of(found.label), found.measured

    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        import_studies(store, _BENCHMARKS / file)
        return dict(of(store))
