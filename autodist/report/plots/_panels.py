"""The panels: each draws one data object on axes that it is given. The caller has the theme on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from autodist.report._search_console import milliseconds
from autodist.report.plots._importance import ChoiceEffect
from autodist.report.plots._plot_texts import TIMES, short_name
from autodist.report.plots._predictions import PredictedAgainstMeasured
from autodist.report.plots._progress import MeanProgress, Progress
from autodist.report.plots._theme import COLOURS, INK, MARKERS

KINDS = {"servers": "servers", "collectives": "collectives", "both": "servers and collectives"}
_MOST_EFFECTS = 8
_LONGEST_NAME = 30
_FAR_APART = 3.0
_LABEL_GAP = 0.062
"""Between the labels of baselines, as a share of the height."""


def draw_progress(axes: Any, courses: Sequence[Progress], means: Sequence[MeanProgress]) -> None:
    """Draw the best speed after this many trials, the trials themselves, and the baselines as lines."""
    colours = dict(zip(dict.fromkeys(course.searcher for course in courses), COLOURS * len(courses), strict=False))
    averaged = {mean.searcher for mean in means}
    for course in courses:
        colour = colours[course.searcher]
        _draw_trials(axes, course, colour, is_alone=len(courses) == 1)
        label = None if course.searcher in averaged else f"best by {course.searcher or 'the search'} so far"
        _draw_best(axes, course.best, colour, label, width=0.8 if course.searcher in averaged else 2.0)
    for mean in means:
        colour = colours[mean.searcher]
        places = [n + 1 for n, value in enumerate(mean.best) if value is not None]
        low, high = ([value for value in values if value is not None] for values in (mean.lowest, mean.highest))
        axes.fill_between(places, low, high, step="post", color=colour, alpha=0.12, linewidth=0)
        label = f"best by {mean.searcher or 'the search'}, mean of {mean.num_studies}"
        _draw_best(axes, mean.best, colour, label, width=2.4)
    _draw_failures(axes, courses)
    longest = max(len(course.speeds) for course in courses)
    axes.set_xlim(0, longest + 1)
    _scale_speeds(axes, courses)
    axes.set_xlabel("trials")
    known = "the fastest baseline" if any(course.baselines for course in courses) else courses[0].reference
    axes.set_ylabel(f"speed relative to {known} ({TIMES})")
    axes.set_title(_progress_title(courses))
    axes.grid(axis="y")
    _legend_below(axes)
    _draw_baselines(axes, courses)


def _legend_below(axes: Any) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), borderaxespad=0, ncols=2, handlelength=1.4)


def _scale_speeds(axes: Any, courses: Sequence[Progress]) -> None:
    """Use a logarithmic scale where speeds are far apart: then twice as fast is as far from 1 as half as fast."""
    speeds = [1.0, *(speed for course in courses for speed in (*course.speeds, *course.baselines.values()) if speed)]
    if max(speeds) <= _FAR_APART:
        margin = 0.06 * (max(speeds) - min(speeds)) + 0.02
        axes.set_ylim(min(speeds) - margin, max(speeds) + margin)
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log", base=2)
    axes.set_ylim(0.8 * min(speeds), 1.15 * max(speeds))
    axes.yaxis.set_major_locator(LogLocator(base=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda speed, _: f"{speed:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _progress_title(courses: Sequence[Progress]) -> str:
    if len(courses) > 1:
        return "Best strategy so far"
    [course] = courses
    return f"Best strategy so far (1{TIMES} is {milliseconds(course.reference_s)} ms/step)"


def _draw_trials(axes: Any, course: Progress, colour: str, is_alone: bool) -> None:
    measured = [(n + 1, speed) for n, speed in enumerate(course.speeds) if speed is not None]
    label = "a trial" if is_alone else None
    axes.scatter(
        *zip(*measured, strict=True) if measured else ((), ()),
        s=11 if is_alone else 5, color=colour, alpha=0.6 if is_alone else 0.3, linewidths=0, label=label,
        gid=points_of(course),
    )  # fmt: skip


def points_of(course: Progress) -> str:
    """The id of the group of a search's trials."""
    return f"trials-{course.study}"


def names_of_points(course: Progress) -> list[str]:
    """The name of each of these points."""
    return [name for name, speed in zip(course.names, course.speeds, strict=True) if speed is not None]


def _draw_best(axes: Any, best: Sequence[float | None], colour: str, label: str | None, width: float) -> None:
    known = [(n + 1, speed) for n, speed in enumerate(best) if speed is not None]
    if known:
        axes.step(*zip(*known, strict=True), where="post", color=colour, linewidth=width, label=label)


def _draw_failures(axes: Any, courses: Sequence[Progress]) -> None:
    reasons = Counter(reason for course in courses for reason in course.failures.values())
    places = [n + 1 for course in courses for n in course.failures]
    if not reasons:
        return
    told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    axes.plot(
        places, [0.025] * len(places), transform=axes.get_xaxis_transform(), linestyle="none", marker="x",
        markersize=4.5, markeredgewidth=1.1, color=INK, label=f"failed ({told})", clip_on=False,
    )  # fmt: skip


def _draw_baselines(axes: Any, courses: Sequence[Progress]) -> None:
    """One line per baseline, at its mean speed, labelled at its right end; labels keep clear of each other."""
    names = dict.fromkeys(name for course in courses for name in course.baselines)
    speeds = {}
    for name in names:
        found = [course.baselines[name] for course in courses if name in course.baselines]
        speeds[short_name(name)] = sum(found) / len(found)
    if not speeds:
        speeds = {courses[0].reference: 1.0}
    to_share = axes.transData + axes.transAxes.inverted()
    shares = {name: float(to_share.transform((0, speed))[1]) for name, speed in speeds.items()}
    for name, height in _apart(shares, _LABEL_GAP).items():
        axes.axhline(speeds[name], color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6, zorder=1)
        axes.annotate(
            f"{speeds[name]:.2f}{TIMES} {name}", (1, shares[name]), (1.04, height), xycoords="axes fraction",
            fontsize=7.5, va="center", annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "linewidth": 0.5, "color": INK, "alpha": 0.5, "shrinkA": 0, "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )  # fmt: skip


def _apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Heights of labels between 0 and 1, moved so that they are at least the gap apart; the order is kept.

    Example:
        >>> _apart({"a": 0.5, "b": 0.5, "c": 1.0}, 0.1)
        {'a': 0.5, 'b': 0.6, 'c': 1.0}
    """
    found: dict[str, float] = {}
    last = -gap
    for name in sorted(heights, key=lambda name: heights[name]):
        last = found[name] = max(heights[name], last + gap)
    above = 1.0
    for name in reversed(found):
        found[name] = min(found[name], above)
        above = found[name] - gap
    return found


def draw_predictions(axes: Any, data: PredictedAgainstMeasured) -> None:
    """Draw a point per trial, and the line on which all would be if the simulator were right."""
    factor = 1e3 if data.are_seconds else 1.0
    for number, (kind, label) in enumerate(KINDS.items()):
        points = [(factor * p.predicted, factor * p.measured) for p in data.points if p.kind == kind]
        if points:
            axes.scatter(
                *zip(*points, strict=True), s=16, marker=MARKERS[number], color=COLOURS[number], alpha=0.65,
                linewidths=0, label=label, gid=kind,
            )  # fmt: skip
    values = [factor * value for point in data.points for value in (point.predicted, point.measured)]
    limits = (0.9 * min(values), 1.1 * max(values))
    if limits[1] > 6 * limits[0] and data.are_seconds:
        _logarithmic(axes)
    else:
        limits = (0, limits[1])
    axes.set(xlim=limits, ylim=limits, box_aspect=1)
    axes.plot(limits, limits, color=INK, linewidth=0.8, alpha=0.6, label="predicted = measured", zorder=1)
    unit = "ms/step" if data.are_seconds else "rank, 1 is the fastest"
    axes.set_xlabel(f"predicted ({unit})")
    axes.set_ylabel(f"measured ({unit})")
    told = "" if data.pairwise is None else f": {100 * data.pairwise:.0f} % of pairs right"
    axes.set_title(f"Predicted and measured{told}")
    axes.grid()
    _legend_below(axes)


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(99, 99)))
        axis.set_minor_formatter(NullFormatter())


def draw_effects(axes: Any, effects: Sequence[ChoiceEffect], title: str) -> None:
    """Draw a bar for each of the most important of the effects."""
    shown = effects[:_MOST_EFFECTS][::-1]
    places = range(len(shown))
    axes.barh(
        places, [max(effect.loss, 0.0) for effect in shown], xerr=[effect.deviation for effect in shown],
        color=COLOURS[0], height=0.62, error_kw={"ecolor": INK, "elinewidth": 0.9, "alpha": 0.8},
    )  # fmt: skip
    axes.set_yticks(places, _short([effect.name for effect in shown]))
    axes.set_xlim(0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("R² lost when shuffled")
    axes.set_title(title)
    axes.grid(axis="x")


def _short(names: Sequence[str]) -> list[str]:
    """Names of variables without the layer that contains all of them; long names keep only their ends.

    Example:
        >>> _short(["model/a/kernel", "model/b/kernel", "3 others"])
        ['a/kernel', 'b/kernel', '3 others']
        >>> _short(["model/a/kernel", "b"])
        ['model/a/kernel', 'b']
    """
    layers = zip(*(name.split("/")[:-1] for name in names if not name.endswith(" others")), strict=False)
    shared = takewhile(lambda parts: len(set(parts)) == 1, layers)
    prefix = "".join(f"{parts[0]}/" for parts in shared)
    ends = [name.removeprefix(prefix) for name in names]
    return [end if len(end) <= _LONGEST_NAME else f"…{end[1 - _LONGEST_NAME :]}" for end in ends]
