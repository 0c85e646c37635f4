"""Draws the panels of a study side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ._base import Line, Panel

__all__ = ["draw"]

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's, which colour-blind people tell apart."""
_WIDTH_IN, _HEIGHT_IN, _IN_A_ROW = 3.6, 3.0, 3


def draw(panels: tuple[Panel, ...], path: Path) -> None:
    """Write a picture of all panels."""
    columns = min(len(panels), _IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(_WIDTH_IN * columns, _HEIGHT_IN * rows), squeeze=False, layout="constrained"
    )
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel)
    grid.flat[0].legend(fontsize=7, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})
    plt.close(figure)


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left", fontweight="bold")
    axes.set_xlabel(panel.x, fontsize=8)
    axes.set_ylabel(panel.y, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if isinstance(panel.lines[0].x[0], str):
        _bars(axes, panel.lines)
    else:
        for line, colour in zip(panel.lines, _colours(panel.lines), strict=True):
            style = "--" if line.is_dashed else "-"
            axes.plot(line.x, line.y, style, color=colour, label=line.name, linewidth=1.4)
    if panel.is_log_x:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for line in panel.lines for x in line.x})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    if panel.is_log_y:
        _powers_of_ten(axes)


def _powers_of_ten(axes: Any) -> None:
    low, high = axes.get_ylim()
    axes.set_yscale("log")
    low = min(patch.get_height() for patch in axes.patches) / 1.5 if axes.patches else low
    ticks = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_ylim(low, high)
    axes.minorticks_off()


def _colours(lines: tuple[Line, ...]) -> list[str]:
    own = iter(_COLOURS * len(lines))
    return ["#888888" if line.is_dashed else next(own) for line in lines]


def _bars(axes: Any, lines: tuple[Line, ...]) -> None:
    width = 0.8 / len(lines)
    for number, line in enumerate(lines):
        places = np.arange(len(line.x)) + (number - (len(lines) - 1) / 2) * width
        axes.bar(places, line.y, width, color=_COLOURS[number % len(_COLOURS)], label=line.name)
    axes.set_xticks(np.arange(len(lines[0].x)), lines[0].x, rotation=25, ha="right")
