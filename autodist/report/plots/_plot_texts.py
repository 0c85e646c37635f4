"""The words of the pictures: above them, and instead of them for those who can't see them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autodist.report._cells import megabytes
from autodist.report._search_console import milliseconds
from autodist.report.plots._importance import ChoiceEffect, Importance
from autodist.report.plots._picture import SearchPicture, Summary
from autodist.report.plots._predictions import PredictedAgainstMeasured
from autodist.report.plots._progress import Progress
from autodist.report.plots._searched import is_baseline, step_s_of
from autodist.wording import counted

TIMES = "\N{MULTIPLICATION SIGN}"


def headline(summary: Summary) -> str:
    """The result in a sentence."""
    time = f"{milliseconds(step_s_of(summary.best))} ms per step"
    if not summary.standings:
        return f"{time}, and no baseline to compare it with"
    known = short_name(summary.standings[0].name)
    if is_baseline(summary.best):
        return f"{time} by {short_name(summary.best.origin.partition(' ')[2])}; no trial was faster"
    return f"{time}, {summary.speedup:.2f} times as fast as {known}{_spread(summary.speedup_spread)}"


def _spread(spread: tuple[float, float]) -> str:
    """The speeds at the quartiles of the steps; nothing where there was one step."""
    low, high = spread
    return "" if low == high else f" ({low:.2f} to {high:.2f})"


def facts(summary: Summary) -> dict[str, str]:
    """The texts below the headline, by name."""
    size, examples = megabytes(summary.size_bytes), counted(summary.batch_size, "example")
    graph = f"{counted(summary.num_variables, 'variable')}, {size} MB, {examples}"
    best = f"trial {summary.best.number} of study {summary.best_study}, {short_name(summary.best.origin)}"
    found = {}
    if summary.standings and summary.num_found:
        share = 100 * summary.num_faster / summary.num_found
        faster = f"{summary.num_faster} of {counted(summary.num_found, 'trial')}"
        found["hits"] = f"{faster} ({share:.0f} %) are faster than the fastest baseline"
    return {
        "search": f"{summary.label}, {studies_of(summary)}",
        "cluster": summary.cluster,
        "graph": f"{graph} per step",
        "trials": f"{summary.num_trials}, {reasons(summary)}",
        "best": best,
        **found,
    }


def studies_of(summary: Summary) -> str:
    """The numbers of the searches."""
    several = len(summary.studies) > 1
    return f"{'studies' if several else 'study'} {', '.join(map(str, summary.studies))}"


def reasons(summary: Summary) -> str:
    """How many trials failed, by reason."""
    if not summary.failures:
        return "none failed"
    told = ", ".join(f"{reason} {count}" for reason, count in summary.failures.items())
    return f"{sum(summary.failures.values())} failed ({told})"


def standings(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, milliseconds per step and speed of the best and of the baselines, the fastest first."""
    rows = [(one.step_s, one.speed, one.spread, short_name(one.name)) for one in summary.standings]
    if rows and not is_baseline(summary.best):
        name = f"trial {summary.best.number}, found by the search"
        rows.append((step_s_of(summary.best), summary.speedup, summary.speedup_spread, name))
    return [
        (name, milliseconds(step_s), f"{speed:.2f}{TIMES}{_spread(spread)}")
        for step_s, speed, spread, name in sorted(rows)
    ]


def short_name(name: str) -> str:
    """A baseline's name without the names of its parameters, except switches.

    Example:
        >>> short_name("AllReduce(communicator='horovod')")
        'AllReduce (horovod)'
        >>> short_name("PartitionedPS(stations=True)")
        'PartitionedPS (stations)'
    """
    name, _, arguments = name.replace("=True", "").partition("(")
    return f"{name} ({re.sub('[a-z_]+=', '', arguments[:-1]).replace(chr(39), '')})" if arguments else name


def about_progress(courses: Sequence[Progress]) -> str:
    """The message of the progress curve."""
    parts = []
    for course in courses:
        known = [(n, speed) for n, speed in enumerate(course.best, 1) if speed is not None]
        if not known:
            parts.append(f"Study {course.study} found nothing.")
            continue
        best = known[-1][1]
        when = next(n for n, speed in known if speed == best)
        parts.append(
            f"Study {course.study}: after {counted(len(course.speeds), 'trial')} the best strategy found has "
            f"{best:.2f} times the speed of {short_name(course.reference)}; it was trial {when} in their order. "
            f"{counted(len(course.failures), 'trial')} failed."
        )
    return " ".join(parts)


def about_predictions(data: PredictedAgainstMeasured) -> str:
    """The message of predicted against measured; why it is not drawn, if there is nothing to draw."""
    if not data.points:
        return "Nothing was predicted: the search had no simulator, or tried only what users know."
    unit = "milliseconds per step" if data.are_seconds else "ranks, as the scores are not seconds"
    share = "" if data.pairwise is None else f"{100 * data.pairwise:.0f} %"
    right = f" The faster of two was predicted in {share} of all pairs." if share else ""
    return f"Predictions for {counted(len(data.points), 'trial')} against their measurements, in {unit}.{right}"


def about_importance(data: Importance) -> str:
    """How far the importance can be trusted; why it is not drawn, if there is none."""
    if data.r2 is None:
        return f"{data.why_not[:1].upper()}{data.why_not[1:]}."
    trust = f"R² is {data.r2:.2f} on strategies that were left out, {data.num_strategies} in all."
    if data.r2 <= 0:
        return f"{trust} The choices explain nothing of the step times, so nothing is drawn."
    return f"{trust} Choices that go together share what they explain."


def about_effects(effects: Sequence[ChoiceEffect]) -> str:
    """The message of the bars."""
    return "Lost R²: " + ", ".join(f"{effect.name} {max(effect.loss, 0):.2f}" for effect in effects) + "."


def about_choices(picture: SearchPicture) -> str:
    """The rows that the table leaves out, and how to get them."""
    best = f"autodist best --study {picture.summary.best_study} --trial {picture.summary.best.number}"
    left_out = f"{picture.choices.left_out} smaller shards are left out. " if picture.choices.left_out else ""
    return f"{left_out}MB are those of a shard; sent MB what the busiest host sends of it. The whole of it: {best}"
