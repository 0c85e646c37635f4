"""Words of a picture about one trial: its name, for a mouse pointer, and how far its steps are apart."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from autodist.report._escapes import plain
from autodist.report._search_console import milliseconds
from autodist.search import Failure, Trial


def middle_half(trial: Trial) -> tuple[float, float]:
    """The quartiles of a measured trial's steps, in seconds: half of them are between the two."""
    steps_s = trial.steps_s
    if len(steps_s) < 2:
        return steps_s[0], steps_s[0]
    low, _, high = statistics.quantiles(steps_s, n=4, method="inclusive")
    return low, high


def trial_text(trial: Trial) -> str:
    """The trial in a line: its number, what proposed it, what it consists of, what it takes."""
    name = f"trial {trial.number}, {trial.origin}: {trial.strategy.mixture}"
    if isinstance(trial.outcome, Failure):
        return f"{name}, failed ({trial.outcome.reason})"
    low, high = middle_half(trial)
    spread = "" if low == high else f", half of the steps {milliseconds(low)} to {milliseconds(high)}"
    return f"{name}, {milliseconds(trial.step_s or 0.0)} ms/step{spread}"


def with_titles(svg: str, titles: Mapping[str, Sequence[str]]) -> str:
    """Let browsers show a text over each point of some groups.

    Args:
        svg: A drawing by matplotlib.
        titles: By the id of a group of points, their texts in order.

    Example:
        >>> with_titles('<g id="a"><use x="1"/><use x="2"/></g>', {"a": ["one", "two"]})
        '<g id="a"><use x="1"><title>one</title></use><use x="2"><title>two</title></use></g>'
    """
    for group, texts in titles.items():
        begin = svg.find(f'<g id="{group}">') + 1  # a group without points ends in its own tag
        if not begin:
            continue
        end = _end_of_group(svg, begin)
        parts = re.split(r"<use ([^>]*?)/>", svg[begin:end])
        parts[1::2] = [_titled(part, text) for part, text in zip(parts[1::2], texts, strict=True)]
        svg = svg[:begin] + "".join(parts) + svg[end:]
    return svg


def _titled(attributes: str, text: str) -> str:
    return f"<use {attributes}><title>{escape(plain(text))}</title></use>"


def _end_of_group(svg: str, begin: int) -> int:
    depth = 1
    for found in re.finditer(r"<g\b(?![^>]*/>)|</g>", svg[begin:]):
        depth += 1 if found[0] == "<g" else -1
        if not depth:
            return begin + found.start()
    return len(svg)
