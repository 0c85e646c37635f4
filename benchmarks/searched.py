"""Strategies that a search measures on emulated hosts in rounds that alternate, beside what the simulator expects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import Row, row
from on_hosts import by_name

from autodist.resource_spec import to_yaml
from autodist.search import Trial, TrialStore, graph_of
from autodist.search.store import floor_of
from autodist.simulator import Domain, EventSimulator, MeasuredStrategies, accuracy_of
from autodist.testing import EmulatedCluster

__all__ = ["KNOWN", "Searched"]

KNOWN = 8
"""How many strategies a search measures in any case, before those that it is given."""
_TIMEOUT_S = 3000.0


@dataclass(frozen=True)
class Searched:
    """A training on emulated hosts whose strategies are measured.

    Attributes:
        cluster: The hosts; the store's directory is one of those that they share.
        store: Where trials are kept.
        script: The training script.
        arguments: Its arguments.
        batch_size: Examples per step on all hosts together.
    """

    cluster: EmulatedCluster
    store: Path
    script: Path
    arguments: Sequence[str]
    batch_size: int

    def search(self, trials: int, *, rounds: int, also: Sequence[str] = ()) -> None:
        """Measure well-known strategies, and others besides."""
        spec = self.store.with_suffix(".yml")
        spec.write_text(to_yaml(by_name(self.cluster)))
        command = [sys.executable, "-m", "autodist", "search", str(self.script), "--spec", str(spec)]
        command += ["--store", str(self.store), "--simulator", "none", "--searcher", "random", "--continue"]
        command += ["--finalists", "0", "--allow-open-ports", "--hopeless", "50"]
        command += ["--trials", f"{trials}", "--rounds", f"{rounds}"]
        command += ["--warm-up", "2", "--iterations", "8"]  # some take seconds for a step
        command += [word for builder in also for word in ("--also", builder)]
        kept = {"AUTODIST_CACHE": str(self.store.parent / "cache")}
        done = self.cluster.run("head", [*command, "--", *self.arguments], env=kept, timeout_s=_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"the search of {self.store.stem} ended with {done.returncode}:\n{done.stderr[-3000:]}")

    def rows(self, name: str, what: str, most_wrong: float, wanted: Callable[[Trial], bool]) -> list[Row]:
        """How well expected times order the measured ones.

        Args:
            name: The case, with which names of rows begin.
            what: The name of the measured strategies.
            most_wrong: The target: which part of all pairs may be in the wrong order.
            wanted: Which trials count.
        """
        with TrialStore(self.store) as opened:
            [study] = opened.studies()
            trials = [trial for trial in opened.trials(study) if trial.step_s is not None and wanted(trial)]
            graph, spec = graph_of(opened, study), by_name(self.cluster)
            floor_s = floor_of(opened, [study])
            domain = Domain.of(graph, spec, batch_size=self.batch_size, profile=study.profile, floor_s=floor_s)
        measured = MeasuredStrategies.of(domain, [t.strategy for t in trials], [t.step_s or 0.0 for t in trials])
        expected = EventSimulator().score(measured.table, domain, len(measured))
        _print(trials, expected)
        found = accuracy_of(expected, measured.step_s)
        slowest = float(measured.step_s.max() / measured.step_s.min())
        return [
            row(f"{name}: Kendall's tau of {len(trials)} {what}", [found.kendall_tau], ""),
            row(f"{name}: pairs in the wrong order", [(1 - found.kendall_tau) / 2], "", target=most_wrong),
            row(f"{name}: the one that is expected to be best, by the fastest", [1 + found.regret], "x"),
            row(f"{name}: the slowest, by the fastest", [slowest], "x"),
            row(f"{name}: median error of expected times", [100 * found.error], "%"),
        ]


def _print(trials: Sequence[Trial], expected: np.ndarray) -> None:
    for trial, time_s in sorted(zip(trials, expected, strict=True), key=lambda pair: pair[1]):
        both = f"expected {1e3 * time_s:7.1f} ms, measured {1e3 * (trial.step_s or 0.0):7.1f} ms"
        print(f"  {both}: {trial.strategy.builder[:150]}", file=sys.stderr, flush=True)
