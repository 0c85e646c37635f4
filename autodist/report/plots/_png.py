"""The picture as one image: the panels, and the best strategy as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from autodist.report._escapes import plain
from autodist.report.plots._figures import Drawing, importance_drawings, predictions_drawing, progress_drawing
from autodist.report.plots._picture import SearchPicture, VariableChoices
from autodist.report.plots._plot_texts import about_importance, about_predictions, facts, headline
from autodist.report.plots._theme import new_figure, themed

_WIDTH_IN = 11.0
_MARGIN = 0.012
_DOTS_PER_INCH = 150
_LINE_IN = 0.16
_TABLE_LINE_IN = 0.13
_LONGEST_CELL = 34
_NUMBERS = ("Times", "MB", "Group", "Sent MB")


def save_png(picture: SearchPicture, path: str | os.PathLike[str]) -> None:
    """Draw the image."""
    columns = _columns(picture)
    header = _header(picture)
    table = ["The best strategy", "", *_table(picture.choices)]
    tallest_in = max((sum(drawing.size_in[1] for drawing in column) for column in columns), default=0.1)
    heights = (0.55 + _LINE_IN * len(header), 4.0, min(tallest_in, 4.2), 0.15 + _TABLE_LINE_IN * len(table))
    with themed():
        figure = new_figure(_WIDTH_IN, sum(heights))
        top, course, beside, bottom = figure.subfigures(4, 1, height_ratios=heights)
        top.text(_MARGIN, 1 - 0.12 / heights[0], headline(picture.summary), fontsize=14, fontweight="bold", va="top")
        top.text(_MARGIN, 1 - 0.45 / heights[0], "\n".join(header), fontsize=8.5, va="top", linespacing=1.35)
        progress_drawing(picture).draw(course.subplots())
        _draw_columns(beside, columns)
        bottom.text(_MARGIN, 1, "\n".join(table), fontsize=7.5, family="DejaVu Sans Mono", va="top")
        figure.savefig(path, format="png", dpi=_DOTS_PER_INCH, facecolor="white")


def _columns(picture: SearchPicture) -> list[list[Drawing]]:
    """The pictures side by side below the progress curve."""
    predictions, importance = predictions_drawing(picture), list(importance_drawings(picture))
    if predictions is None:
        return [[drawing] for drawing in importance]
    return [[predictions], importance] if importance else [[predictions]]


def _header(picture: SearchPicture) -> list[str]:
    told = [f"{name}: {value}" for name, value in facts(picture.summary).items()]
    if not picture.predictions.points:
        told.append(about_predictions(picture.predictions))
    return [plain(line) for line in [*told, f"importance: {about_importance(picture.importance)}"]]


def _draw_columns(place: Any, columns: Sequence[Sequence[Drawing]]) -> None:
    """Draw panels side by side, those of a column below each other."""
    if not columns:
        return
    for part, drawings in zip(place.subfigures(1, len(columns), squeeze=False)[0], columns, strict=True):
        heights = [drawing.size_in[1] for drawing in drawings]
        for drawing, axes in zip(
            drawings, part.subplots(len(drawings), squeeze=False, height_ratios=heights).flat, strict=True
        ):
            drawing.draw(axes)


def _table(choices: VariableChoices) -> list[str]:
    """The lines of the table, their columns in line."""
    columns = []
    for header, cells in choices.columns.items():
        shown = [header, *(_end(plain(cell)) for cell in cells)]
        width = max(map(len, shown))
        columns.append([f"{cell:>{width}}" if header in _NUMBERS else f"{cell:<{width}}" for cell in shown])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return lines if not choices.left_out else [*lines, f"and {choices.left_out} smaller ones"]


def _end(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"…{text[1 - _LONGEST_CELL :]}"
