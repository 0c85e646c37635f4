"""``autodist search --simulate-only``: a simulator ranks the strategies, and nothing is measured."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.cli._search_watcher import Watcher, next_command
from autodist.cli.options import (
    OPTIONS_OF_MACHINES,
    ClusterOptions,
    JobOptions,
    ScriptWords,
    SubjectOptions,
    bill_for,
    find_subject,
    kept_as_run,
    new_directory,
    resolve_spec,
    silent_launcher,
    typed_options,
    written,
)
from autodist.errors import UsageError
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.report import PredictionRow
    from autodist.resource_spec import ResourceSpec
    from autodist.search import Bill, Ranked, ScoringBudget
    from autodist.tuning import OfflineResult, SearchRequest

_SCHEMA_VERSION = 1
_BOUND_S = 5.0
"""Seconds of a search for which the user sets no bound: a large graph on many machines has an answer within ten."""

_OF_TRIALS = frozenset(
    {
        "trials", "warm_up", "iterations", "enough", "hopeless", "finalists", "trial_timeout", "no_profile", "store",
        "resume", "goes_on", "rounds", "batches", "scored", "qualified", "at_once", "alpha", "similarity",
    }
)  # fmt: skip
_OF_SCRIPTS = frozenset({"env", "env_file", "start_timeout", "grace"})


@dataclass(frozen=True)
class OfflineCommand:
    """The command as it was typed.

    Attributes:
        script: A script, a saved graph, or a run's directory; with what follows ``--``.
        cluster: The cluster's options.
        options: The job's options.
        proposals: How many strategies are scored; None for the default.
        examples: Examples of an epoch; None if that is not known.
        out: Where the best goes; None for the default.
        as_json: Whether JSON is wanted.
    """

    script: ScriptWords
    cluster: ClusterOptions
    options: JobOptions
    proposals: int | None
    examples: int | None
    out: Path | None
    as_json: bool

    def is_meant(self, simulate_only: bool) -> bool:
        """Whether to measure nothing.

        Raises:
            UsageError: The command line says yes and no.
        """
        if not simulate_only and self.proposals is not None:
            raise UsageError(
                "`--proposals` says how much a search without trials looks at",
                hint="give `--simulate-only`, or `--trials` instead",
            )
        if not simulate_only and self._is_saved:
            raise UsageError(
                f"`{self.script.text}` is a saved graph, of which no steps can be measured",
                hint="give `--simulate-only`, or the script",
            )
        return simulate_only

    def run(self, request: SearchRequest) -> int:
        """Search, save the best and show the rest.

        Raises:
            UsageError: Options that have no meaning here; all of them are listed.
        """
        from autodist.simulator import Domain
        from autodist.tuning import offline_simulator, search_offline

        self._refuse_idle(typed_options())
        offline_simulator(request)
        budget = self._budget(request.budget.time_s)
        directory = Path(self.options.run_dir) if self.options.run_dir else new_directory("search")
        watcher = Watcher(request)
        try:
            with kept_as_run("search", " ".join(self.script.words), directory):
                graph, spec = self._subject(request.utility, directory, watcher)
                result = search_offline(request, Domain.of(graph, spec), budget, watcher)
        finally:
            watcher.console.close()
        path = self.out or directory / "best.json"
        smaller = self._save_smaller(result, directory / f"{path.stem}-cluster.json")
        bill = bill_for(result.domain.spec, result.domain.batch_size, self.examples)
        with written(path, result.ranking.best.strategy.to_json()) as saved:
            content = _Content(result, bill, saved, smaller, self._next(path, smaller))
            click.echo(content.to_json()) if self.as_json else content.show()
        return 0

    @staticmethod
    def _save_smaller(result: OfflineResult, path: Path) -> Path | None:
        """Write down the cluster of the best strategy, if it uses some of the hosts only: a file of the run's own."""
        from autodist.search import cluster_of, hosts_of

        hosts = hosts_of(result.ranking.best.strategy)
        if len(hosts) == result.domain.spec.world_size:
            return None
        path.write_text(cluster_of(result.domain.spec, hosts).to_json(), encoding="utf-8")
        return path

    @property
    def _is_saved(self) -> bool:
        path = Path(self.script.text)
        return not self.script.is_module and (path.suffix == ".zip" or (path.is_dir() and any(path.glob("graph*.zip"))))

    def _budget(self, time_s: float | None) -> ScoringBudget:
        from autodist.search import ScoringBudget

        if self.proposals is None:
            return ScoringBudget(time_s=time_s or _BOUND_S)
        return ScoringBudget(self.proposals, time_s)

    def _refuse_idle(self, given: dict[str, str]) -> None:
        mistakes = [
            *_idle(given, _OF_TRIALS, "with `--simulate-only` nothing is measured or stored"),
            *_idle(given, OPTIONS_OF_MACHINES, "with `--simulate-only` no other machine is reached"),
        ]
        if self._is_saved:
            mistakes += _idle(given, _OF_SCRIPTS, f"`{self.script.text}` is a saved graph, no script is run")
            mistakes += [f"`{self.script.text}` is a saved graph, it takes no arguments"] if self.script.args else []
        if mistakes:
            raise UsageError("\n".join(mistakes), hint="leave them out")

    def _subject(self, utility: str, directory: Path, watcher: Watcher) -> tuple[TrainingGraph, ResourceSpec]:
        """The graph and the cluster: of a run, or of the script's first step."""
        if self._is_saved:
            subject = find_subject((), SubjectOptions(self.script.text, self.cluster, 0, None, ()))
            assert subject.graph is not None, "a graph is what was given"
            assert subject.spec is not None, "where there is a graph there is a cluster"
            return subject.graph, subject.spec
        from autodist.search import utility_of
        from autodist.tuning import captured_graph

        job = self.options.job(self.script, resolve_spec(self.cluster))
        utility_of(utility, job.spec)  # may refuse it, before the script runs
        return captured_graph(replace(job, run_dir=directory), silent_launcher(watcher.console, "asyncssh")), job.spec

    def _next(self, path: Path, smaller: Path | None) -> str:
        cluster = self.cluster if smaller is None else ClusterOptions(spec=str(smaller))
        if not self._is_saved:
            return next_command(self.script, cluster, path)
        return shlex.join(["autodist", "explain", str(path), "--graph", self.script.text, *cluster.words])


def _idle(given: dict[str, str], names: Collection[str], reason: str) -> Iterator[str]:
    options = [f"`{option}`" for name, option in given.items() if name in names]
    if options:
        yield f"{', '.join(options)}: {reason}"


@dataclass(frozen=True)
class _Content:
    """The parts of a result that are shown."""

    result: OfflineResult
    bill: Bill
    saved: Path | None
    smaller: Path | None
    next: str

    def show(self) -> None:
        """Print a table with notes."""
        from autodist.report import PredictionRow, output_console, show_predictions

        ranked = self.result.ranking.ranked
        rows = [self._row(one) for one in ranked]
        rows += [PredictionRow(name, None, note=reason) for name, reason in self.result.why_not.items()]
        known = [row for row, one in zip(rows, ranked, strict=False) if one.is_baseline and not row.hosts]
        times = [row.predicted_s for row in known if row.predicted_s is not None]
        costs = [row.cost for row in known if row.cost is not None and self.result.utility.name == "cost"]
        reference_cost = min(costs, default=None)
        show_predictions(rows, min(times, default=None), unit=self.bill.unit, reference_cost=reference_cost)
        console = output_console()
        for line in self._account():
            console.print(line)

    def _row(self, ranked: Ranked) -> PredictionRow:
        from autodist.report import PredictionRow
        from autodist.search import hosts_of

        used, there = len(hosts_of(ranked.strategy)), self.result.domain.spec.world_size
        return PredictionRow(
            ranked.origin,
            ranked.predicted_s,
            ranked.strategy.mixture,
            "the best" if ranked is self.result.ranking.best else "",
            self.bill.of(ranked.strategy, ranked.predicted_s),
            "" if used == there else f"{used} of {there}",
        )

    def _account(self) -> Iterator[str]:
        from autodist.search import hosts_of

        result = self.result
        profile, scored = result.domain.profile.source, result.ranking.scored
        trust = ", from sizes alone: trust the order, not the times" if profile == "estimated" else ""
        more = "; `--budget 1m` looks at more" if scored < result.wanted else ""
        yield f"nothing was measured: `{result.simulator}` predicts, by a profile that is {profile}{trust}"
        yield f"{counted(scored, 'proposal')} of {result.wanted:,} scored in {result.duration_s:.1f} s{more}"
        if self.smaller is not None:
            yield f"the best uses only {', '.join(hosts_of(result.ranking.best.strategy))}: saved {self.smaller}"
        if self.saved is not None:
            yield f"saved {self.saved}"
            yield f"next: {self.next}"

    def to_json(self) -> str:
        """The result as JSON, for programs."""
        result = self.result
        content = {
            "schema_version": _SCHEMA_VERSION,
            "measured": False,
            "simulator": result.simulator,
            "utility": result.utility.name,
            "profile": result.domain.profile.source,
            "batch_size": result.domain.batch_size,
            "best": self._plain(result.ranking.best),
            "ranked": [self._plain(ranked) for ranked in result.ranking.ranked],
            "why_not": dict(result.why_not),
            "proposals": result.ranking.scored,
            "duration_s": round(result.duration_s, 1),
            "saved": self.saved and str(self.saved),
            "cluster": None if self.smaller is None else str(self.smaller),
            "next": self.saved and self.next,
        }
        return json.dumps(content, indent=2)

    def _plain(self, ranked: Ranked) -> dict[str, Any]:
        from autodist.search import hosts_of

        return {
            "origin": ranked.origin,
            "is_baseline": ranked.is_baseline,
            "strategy": ranked.strategy.id,
            "hosts": hosts_of(ranked.strategy),
            "predicted_s": ranked.predicted_s,
            f"cost_per_{self.bill.key}": self.bill.of(ranked.strategy, ranked.predicted_s),
        }
