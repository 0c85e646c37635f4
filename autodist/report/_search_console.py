"""A search on the console: its progress, and its trials as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autodist.report._cells import fitted, table_console
from autodist.report._live_line import LiveLine, left
from autodist.wording import counted

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class TrialRow:
    """A trial as a line.

    Attributes:
        number: Within its search; None if it was not tried.
        origin: What proposed it.
        step_s: Seconds of a step, None if it failed.
        outcome: Why it failed, or how well the simulator knew it; may be empty.
        cost: What training costs with it; None if that is not known.
        mixture: What the strategy consists of, in words.
    """

    number: int | None
    origin: str
    step_s: float | None
    mixture: str
    outcome: str = ""
    cost: float | None = None


def show_trials(
    rows: Sequence[TrialRow], reference_s: float | None = None, console: Console | None = None, *, unit: str = ""
) -> None:
    """Show trials in the order given, on standard output by default.

    Args:
        rows: The trials.
        reference_s: Seconds of a step to which others are compared; None leaves that out.
        console: Where to.
        unit: What costs are for.
    """
    console = console or table_console()
    columns = {
        "Trial": ["-" if row.number is None else str(row.number) for row in rows],
        "From": [row.origin for row in rows],
        "ms/step": ["-" if row.step_s is None else milliseconds(row.step_s) for row in rows],
        "Against": [against(row.step_s, reference_s) for row in rows],
        f"Cost/{unit}": [money(row.cost) for row in rows],
        "Strategy": [row.mixture for row in rows],
        "Note": [row.outcome for row in rows],
    }
    right = ("Trial", "ms/step", "Against", f"Cost/{unit}")
    shrink = {"From": 16, "Strategy": 24, "Note": 24}
    console.print(fitted(columns, console.width, right=right, shrink=shrink, ends=False))


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds, with three digits that count.

    Example:
        >>> [milliseconds(s) for s in (0.00123456, 0.0123456, 1.23456)]
        ['1.23', '12.3', '1235']
    """
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def money(cost: float | None) -> str:
    """An amount with three digits that count, in whatever currency.

    Example:
        >>> [money(cost) for cost in (0.00123456, 1.23456, 1234.56, None)]
        ['0.00123', '1.23', '1235', '']
    """
    if cost is None:
        return ""
    return f"{cost:.0f}" if cost >= 100 else f"{cost:.3g}"


def against(step_s: float | None, reference_s: float | None) -> str:
    """How much longer a step takes than another, in percent.

    Example:
        >>> against(0.9, 1.0), against(1.0, 1.0), against(None, 1.0)
        ('-10 %', '+0 %', '')
    """
    if step_s is None or not reference_s:
        return ""
    return f"{100 * (step_s / reference_s - 1):+.0f} %"


@dataclass(frozen=True)
class SearchProgress:
    """The progress of a search.

    Attributes:
        done: Trials so far.
        total: How many there will be at most.
        failed: Failed ones, by reason.
        best_s: Seconds of the fastest step so far; None if there is none.
        baseline: The fastest strategy that users know, empty if none was measured.
        baseline_s: Seconds of its step.
        left_s: Seconds to the end, None if that is not known.
        again: How many times one of the best was measured again; the fastest of many trials was also lucky.
    """

    done: int
    total: int
    failed: Mapping[str, int] = field(default_factory=dict)
    best_s: float | None = None
    baseline: str = ""
    baseline_s: float | None = None
    left_s: float | None = None
    again: int = 0

    def __str__(self) -> str:
        parts = [f"the best measured again, {counted(self.again, 'time')} so far"]
        if not self.again:
            parts = [f"trial {self.done} of {self.total}"]
        if self.failed:
            reasons = ", ".join(f"{reason} {count}" for reason, count in self.failed.items())
            parts.append(f"failed {sum(self.failed.values())} ({reasons})")
        if self.best_s is not None:
            parts.append(f"best {milliseconds(self.best_s)} ms")
            if self.baseline:
                parts.append(f"{against(self.best_s, self.baseline_s)} against {self.baseline}")
        if self.left_s is not None:
            parts.append(f"at most {left(self.left_s)}" if self.again else left(self.left_s))
        return ", ".join(parts)


class SearchConsole(LiveLine):
    """Shows a search on standard error."""

    def progress(self, progress: SearchProgress) -> None:
        """Show the progress of the search."""
        self.show(str(progress), is_last=progress.done == progress.total and progress.again < 2)
