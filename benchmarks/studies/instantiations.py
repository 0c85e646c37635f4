"""Tables 8.1 and 8.3: which learned model ranks best, and by which features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from autodist.search import CONTESTANTS
from autodist.simulator import cross_validated

from ._base import Findings, Study
from ._trials import CLUSTERS, MODELS, measured

__all__ = ["STUDIES"]

_DOMAINS = tuple((model, cluster) for model in ("vgg", "bert_3") for cluster in ("slow", "few"))


class _Ranking(Study):
    """How well some simulators rank trials that are held out."""

    names: ClassVar[Sequence[str]]
    thesis: ClassVar[Mapping[str, tuple[str, ...]]]

    def run(self) -> Findings:
        """Learn, by five folds of each domain."""
        rows = []
        for model, cluster in _DOMAINS:
            data = measured(f"trials/{cluster}.zip")[model]
            found = []
            for name in self.names:
                found.append(f"{cross_validated(CONTESTANTS[name], data).pairwise:.3f}")
            rows.append((f"{MODELS[model]}, {CLUSTERS[cluster]}", *found))
        rows += [(f"thesis: {domain}", *cells) for domain, cells in self.thesis.items()]
        return Findings(("Trials held out", *self.names), tuple(rows))


class Instantiations(_Ranking):
    """Which model."""

    name = "table-8.1"
    title = "Pairs that learned simulators put into the right order"
    needs = "half an hour"
    names: ClassVar[Sequence[str]] = ("linear", "rnn", "gat", "forest", "events")
    thesis: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "NCF, dense, A": ("0.771", "0.894", "0.810", "", ""),
        "NCF, dense, B": ("0.826", "0.913", "0.830", "", ""),
        "VGG16, A": ("0.868", "0.796", "0.753", "", ""),
        "VGG16, B": ("0.833", "0.839", "0.692", "", ""),
        "BERT-base, A": ("0.758", "0.746", "0.775", "", ""),
        "BERT-base, B": ("0.807", "0.867", "0.760", "", ""),
        "BERT-large, A": ("0.780", "0.847", "0.771", "", ""),
        "BERT-large, B": ("0.796", "0.755", "0.784", "", ""),
    }


class Features(_Ranking):
    """Which features."""

    name = "table-8.3"
    title = "The same by which features they learn from"
    needs = "half an hour"
    names: ClassVar[Sequence[str]] = ("rnn", "rnn:raw", "rnn:predefined")
    thesis: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "NCF, dense, A": ("0.894", "0.894", "0.883"),
        "NCF, dense, B": ("0.913", "0.907", "0.873"),
        "VGG16, A": ("0.796", "0.785", "0.734"),
        "VGG16, B": ("0.839", "0.837", "0.816"),
        "BERT-large, A": ("0.847", "0.848", "0.850"),
        "BERT-large, B": ("0.755", "0.746", "0.735"),
    }


STUDIES: tuple[type[Study], ...] = (Instantiations, Features)
