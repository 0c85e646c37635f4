"""All that is shown of a search, or of several of one graph on one cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from autodist.report._explanation import columns_of_explanation
from autodist.report.plots._importance import Importance, importance_of
from autodist.report.plots._predictions import PredictedAgainstMeasured, predictions_of
from autodist.report.plots._progress import MeanProgress, Progress, mean_progress, progress_of
from autodist.report.plots._searched import Searched, check_together, is_baseline, step_s_of
from autodist.resource_spec import ResourceSpec
from autodist.search import Trial
from autodist.strategies import explain

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import Host
    from autodist.strategies import Strategy


@dataclass(frozen=True)
class KnownStrategy:
    """A strategy that users know, next to the best.

    Attributes:
        name: What it is called.
        step_s: Seconds of its step, the mean of several searches.
        speed: Relative to the fastest baseline of the same search, the mean of several searches.
        spread: The speeds at the quartiles of its steps, the lower one first, the means of several searches.
    """

    name: str
    step_s: float
    speed: float
    spread: tuple[float, float]


@dataclass(frozen=True)
class Summary:
    """The text above the pictures.

    Attributes:
        label: What people call the search.
        studies: Numbers of the searches.
        cluster: The hosts, in words.
        num_variables: How many variables are trained.
        size_bytes: Bytes of their values.
        batch_size: Examples in the global batch.
        num_trials: How many strategies were tried.
        failures: Failed ones, by reason.
        best_study: In which search the fastest trial was.
        best: The fastest trial.
        speedup: Its speed relative to the fastest baseline of its search.
        speedup_spread: The same at the quartiles of its steps, the lower one first.
        num_found: How many trials the searchers proposed, failed ones included.
        num_faster: How many of them are faster than the fastest baseline of their search; the hit rate is their share.
        standings: The baselines, the fastest first.
    """

    label: str
    studies: tuple[int, ...]
    cluster: str
    num_variables: int
    size_bytes: int
    batch_size: int
    num_trials: int
    failures: Mapping[str, int]
    best_study: int
    best: Trial
    speedup: float
    speedup_spread: tuple[float, float]
    num_found: int
    num_faster: int
    standings: tuple[KnownStrategy, ...]


@dataclass(frozen=True)
class VariableChoices:
    """A strategy's choices for each variable, or each shard, as a table.

    Attributes:
        columns: By header, the cells; no column is empty.
        left_out: How many shards are not in it: the smallest, where there are very many.
    """

    columns: Mapping[str, tuple[str, ...]]
    left_out: int = 0


@dataclass(frozen=True)
class SearchPicture:
    """All that is shown.

    Attributes:
        summary: The text above.
        progress: The course of each search.
        means: The mean course by searcher, of searchers with several searches.
        predictions: Predicted against measured.
        choices: The best strategy, variable by variable.
        importance: Which choices matter.
    """

    summary: Summary
    progress: tuple[Progress, ...]
    means: tuple[MeanProgress, ...]
    predictions: PredictedAgainstMeasured
    choices: VariableChoices
    importance: Importance


def picture_of(searches: Sequence[Searched], graph: TrainingGraph) -> SearchPicture:
    """The picture of searches.

    Args:
        searches: At least one; several of the same graph on the same cluster.
        graph: G.

    Raises:
        UsageError: They are of different graphs or clusters.
    """
    check_together(searches)
    courses = [progress_of(searched, searches) for searched in searches]
    by_searcher = groupby(sorted(courses, key=lambda course: course.searcher), key=lambda course: course.searcher)
    alike = [list(group) for _, group in by_searcher]
    summary = summary_of(searches, courses, graph)
    return SearchPicture(
        summary,
        tuple(courses),
        tuple(mean_progress(group) for group in alike if len(group) > 1),
        predictions_of(searches),
        choices_of(
            summary.best.strategy,
            graph,
            ResourceSpec.from_json(searches[0].study.spec),
            batch_size=summary.batch_size,
        ),
        importance_of(
            [trial for searched in searches for trial in searched.trials],
            {variable.name: variable.size_bytes for variable in graph.trainable},
        ),
    )


def summary_of(searches: Sequence[Searched], courses: Sequence[Progress], graph: TrainingGraph) -> Summary:
    """The text above the pictures.

    Args:
        searches: Searches of one graph on one cluster.
        courses: Progress of each search.
        graph: G.
    """
    fastest = min(range(len(searches)), key=lambda k: step_s_of(searches[k].best))
    best, study = searches[fastest].best, searches[0].study
    found = [trial for searched in searches for trial in searched.trials if not is_baseline(trial)]
    failures = sum((searched.failures for searched in searches), Counter[str]())
    return Summary(
        label=study.label,
        studies=tuple(searched.study.id for searched in searches),
        cluster=_cluster(ResourceSpec.from_json(study.spec)),
        num_variables=len(graph.trainable),
        size_bytes=sum(variable.size_bytes for variable in graph.trainable),
        batch_size=study.batch_size,
        num_trials=sum(len(searched.trials) for searched in searches),
        failures=dict(failures.most_common()),
        best_study=searches[fastest].study.id,
        best=best,
        speedup=courses[fastest].reference_s / step_s_of(best),
        speedup_spread=courses[fastest].best_spread,
        num_found=len(found),
        num_faster=sum(speed is not None and speed > 1 for course in courses for speed in course.speeds),
        standings=_standings(courses),
    )


def choices_of(
    strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec, *, batch_size: int | None = None
) -> VariableChoices:
    """A strategy's choices for each variable: the table of ``autodist explain``.

    Args:
        strategy: S.
        graph: G.
        spec: D.
        batch_size: Examples in the global batch; by default the graph's.
    """
    columns, left_out = columns_of_explanation(explain(strategy, graph, spec, batch_size=batch_size))
    return VariableChoices({header: tuple(cells) for header, cells in columns.items() if any(cells)}, left_out)


def _standings(courses: Sequence[Progress]) -> tuple[KnownStrategy, ...]:
    found = []
    for name in dict.fromkeys(name for course in courses for name in course.baselines):
        having = [course for course in courses if name in course.baselines]
        step_s = sum(course.reference_s / course.baselines[name] for course in having) / len(having)
        low, high = (sum(course.spreads[name][k] for course in having) / len(having) for k in (0, 1))
        speed = sum(course.baselines[name] for course in having) / len(having)
        found.append(KnownStrategy(name, step_s, speed, (low, high)))
    return tuple(sorted(found, key=lambda standing: standing.step_s))


def _cluster(spec: ResourceSpec) -> str:
    """The hosts in words: those that are alike together."""
    alike: dict[str, list[str]] = {}
    for host in spec.hosts:
        alike.setdefault(_kind(host), []).append(host.name)
    parts = [f"{_listed(names)} ({kind})" for kind, names in alike.items()]
    return f"{len(spec.hosts)} host{'s' if len(spec.hosts) > 1 else ''}: {', '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]} … {names[-1]}"


def _kind(host: Host) -> str:
    count, kind = (len(host.gpus), "GPU") if host.gpus else (host.cpus, "CPU device")
    return f"{count} {kind}{'s' if count > 1 else ''}, {host.bandwidth_gbps:g} Gbit/s"
