"""What every study is: it computes, and gives a table and panels of a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

__all__ = ["Findings", "Line", "Panel", "Study"]


@dataclass(frozen=True)
class Line:
    """Some points of a panel that belong together.

    Attributes:
        name: What the legend says.
        x: Where they are, or one name for each bar.
        y: How high.
        is_dashed: Whether it is of the thesis, or ideal, and not ours.

    """

    name: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    is_dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A plot: of bars where places have names, of lines where they are numbers.

    Attributes:
        title: What is above it.
        x: What the horizontal axis says.
        y: What the vertical axis says.
        lines: What is drawn.
        is_log_x: Whether the horizontal axis has powers of two.
        is_log_y: Whether the vertical axis has powers of ten.

    """

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    is_log_x: bool = False
    is_log_y: bool = False


@dataclass(frozen=True)
class Findings:
    """What came of a study.

    Attributes:
        columns: Titles of the table.
        rows: Its cells, as text.
        panels: Of the picture; none where a table says it all.

    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    panels: tuple[Panel, ...] = field(default=())


class Study(ABC):
    """One figure or table of the thesis.

    Attributes:
        name: As it is typed, like ``figure-7.6``.
        title: What is studied.
        needs: What it takes: minutes of two cores, a machine of its own.

    """

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[str]

    @abstractmethod
    def run(self) -> Findings:
        """Compute, or evaluate what was measured."""
