"""The figures of a picture: which there are, how large, and what each says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from autodist.report.plots._panels import (
    KINDS,
    draw_effects,
    draw_predictions,
    draw_progress,
    names_of_points,
    points_of,
)
from autodist.report.plots._picture import SearchPicture
from autodist.report.plots._plot_texts import about_effects, about_importance, about_predictions, about_progress


@dataclass(frozen=True)
class Drawing:
    """A panel that can be drawn, on axes of its own or next to others.

    Attributes:
        name: Short, of letters.
        size_in: Width and height on its own.
        draw: Draws it on axes.
        alt: What it shows, in words.
        titles: By the id of a group of points, what each of them is.
    """

    name: str
    size_in: tuple[float, float]
    draw: Callable[[Any], None]
    alt: str
    titles: Mapping[str, Sequence[str]] = field(default_factory=dict)


def progress_drawing(picture: SearchPicture) -> Drawing:
    """The progress curve."""
    draw = partial(draw_progress, courses=picture.progress, means=picture.means)
    titles = {points_of(course): names_of_points(course) for course in picture.progress}
    return Drawing("progress", (5.6, 4.0), draw, about_progress(picture.progress), titles)


def predictions_drawing(picture: SearchPicture) -> Drawing | None:
    """Predicted against measured; None if nothing was predicted."""
    data = picture.predictions
    if not data.points:
        return None
    titles = {kind: [point.name for point in data.points if point.kind == kind] for kind in KINDS}
    return Drawing("predictions", (4.4, 4.6), partial(draw_predictions, data=data), about_predictions(data), titles)


def importance_drawings(picture: SearchPicture) -> Iterator[Drawing]:
    """Importance by kind of choice and by variable; nothing if there is none, or if the bars would mean nothing."""
    data = picture.importance
    if data.r2 is None or data.r2 <= 0:
        return
    for name, title, effects in (
        ("kinds", f"What matters: R² {data.r2:.2f} out of sample", data.kinds),
        ("variables", "Where it matters", data.variables),
    ):
        height_in = 1.0 + 0.26 * min(len(effects), 8)
        alt = f"{about_importance(data)} {about_effects(effects)}"
        yield Drawing(name, (4.8, height_in), partial(draw_effects, effects=effects, title=title), alt)
