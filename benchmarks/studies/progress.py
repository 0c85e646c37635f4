"""Figures 8.2 and 8.3: how soon searches find something better than what users know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from autodist.search import Trial
from autodist.simulator import LEARNED, Simulator, trained

from ._base import Findings, Line, Panel, Study
from ._simulated_search import FILES, simulated_search
from ._trials import CLUSTERS, MODELS, measured

__all__ = ["STUDIES"]

_SEEDS = 3
_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "AutoSync": {},
    "(-s)": {"simulator": "none"},
    "(-s, -k)": {"simulator": "none", "is_guided": False},
}
_DOMAINS = tuple((model, cluster) for model in ("vgg", "ncf_dense", "bert_3") for cluster in FILES)
_MARKS = (10, 50, 200)


class Progress(Study):
    """The best so far, and the share of strategies that beat what users know."""

    name = "figure-8.2"
    title = (
        "The best of so many trials, with a simulator, without (-s), and without what is known of strategies (-s, -k)"
    )
    needs = "ten minutes"

    def run(self) -> Findings:
        """Search in simulation."""
        rows, panels = [], []
        for model, cluster in _DOMAINS:
            searches = {name: _mean_course(model, cluster, 200, options) for name, options in _VARIANTS.items()}
            rows += _rows(model, cluster, searches, _MARKS)
            panels.append(_panel(model, cluster, searches))
        return Findings(_columns(_MARKS), tuple(rows), tuple(panels))


class Transfer(Study):
    """The same with a simulator that has learned elsewhere, and learns nothing here."""

    name = "figure-8.3"
    title = "The best of so many trials, with a network that has learned from trials of another domain"
    needs = "ten minutes"

    def run(self) -> Findings:
        """Search in simulation."""
        rows, panels = [], []
        for (model, cluster), sources in _TRANSFERS.items():
            searches = {
                f"from {MODELS[of]}, {CLUSTERS[where]}": _mean_course(
                    model, cluster, 100, {"simulator_of": _always(_learned(of, where))}
                )
                for of, where in sources
            }
            searches |= {name: _mean_course(model, cluster, 100, _VARIANTS[name]) for name in ("AutoSync", "(-s)")}
            rows += _rows(model, cluster, searches, _FEWER_MARKS)
            panels.append(_panel(model, cluster, searches))
        return Findings(_columns(_FEWER_MARKS), tuple(rows), tuple(panels))


STUDIES: tuple[type[Study], ...] = (Progress, Transfer)

_FEWER_MARKS = (5, 20, 100)
_TRANSFERS: Mapping[tuple[str, str], Sequence[tuple[str, str]]] = {
    ("vgg", "few"): (("vgg", "slow"),),
    ("bert_3", "few"): (("bert_3", "slow"), ("vgg", "few")),
}
_Course = tuple[Sequence[float], Sequence[float]]
"""By trial, how many times as fast as the best that users know the best so far is, and which share was faster."""


@cache
def _learned(model: str, cluster: str) -> Simulator:
    return trained(LEARNED["rnn"](), [measured(f"trials/{cluster}.zip")[model]])


def _always(simulator: Simulator) -> Callable[[Sequence[Trial]], Simulator]:
    return lambda _: simulator


def _mean_course(model: str, cluster: str, trials: int, options: Mapping[str, Any]) -> _Course:
    courses = []
    for seed in range(_SEEDS):
        found, rival_s = simulated_search(model, cluster, trials, seed, **options)
        speeds = np.array([rival_s / trial.step_s if trial.step_s else 0.0 for trial in found])
        number = np.arange(1, len(speeds) + 1)
        courses.append((np.maximum.accumulate(speeds), np.cumsum(speeds > 1) / number))
    shortest = min(len(best) for best, _ in courses)
    means = [np.mean([course[which][:shortest] for course in courses], axis=0).tolist() for which in (0, 1)]
    return means[0], means[1]


def _columns(marks: Sequence[int]) -> tuple[str, ...]:
    return ("Model, hosts", "Search", *(f"best of {mark}" for mark in marks), "faster than users' best")


def _rows(model: str, cluster: str, searches: Mapping[str, _Course], marks: Sequence[int]) -> list[tuple[str, ...]]:
    domain = f"{MODELS[model]}, {CLUSTERS[cluster]}"
    return [
        (domain, name, *(f"{best[min(mark, len(best)) - 1]:.2f} x" for mark in marks), f"{100 * hits[-1]:.0f} %")
        for name, (best, hits) in searches.items()
    ]


def _panel(model: str, cluster: str, searches: Mapping[str, _Course]) -> Panel:
    lines = (
        Line(name, tuple(range(1, len(best) + 1)), tuple(round(speed, 3) for speed in best))
        for name, (best, _) in searches.items()
    )
    return Panel(f"{MODELS[model]}, {CLUSTERS[cluster]}", "trials", "times users' best", tuple(lines))
