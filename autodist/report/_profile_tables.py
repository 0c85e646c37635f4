"""A profile as tables: what a step computes, and when each variable is needed and its gradient ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.report._cells import fitted, table_console
from autodist.report._search_console import milliseconds
from autodist.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

_MANY_OPS = 12
_MANY_VARIABLES = 30
_WAITED = "; the step waited most of the time: is the machine busy with something else?"


@dataclass(frozen=True)
class OpRow:
    """A type of operation as a line.

    Attributes:
        op: Its name.
        measured_s: Seconds of all operations of this type in a step.
        estimated_s: The same by the estimate.
    """

    op: str
    measured_s: float
    estimated_s: float


@dataclass(frozen=True)
class VariableTimeRow:
    """A variable as a line; times from the begin of a step.

    Attributes:
        name: Name of the variable.
        needed_s: When its value is needed.
        ready_s: When its gradient is ready.
        busy_s: Seconds of the operations that read it or make its gradient.
        estimated_ready_s: When its gradient is ready by the estimate.
    """

    name: str
    needed_s: float
    ready_s: float
    busy_s: float
    estimated_ready_s: float


@dataclass(frozen=True)
class ProfileSheet:
    """The parts of a profile that are shown.

    Attributes:
        device: What it was measured on.
        batch_size: Examples in a step.
        step_s: Seconds of forward and backward pass.
        processor_s: Processor time of a step.
        estimated_s: Seconds of a step by the estimate.
        coverage: The part of the operations that were seen at work.
        is_disturbed: Whether the step has waited most of the time.
        ops: Types of operations, the longest first.
        variables: In the order in which gradients are ready.
    """

    device: str
    batch_size: int
    step_s: float
    processor_s: float
    estimated_s: float
    coverage: float
    is_disturbed: bool
    ops: tuple[OpRow, ...]
    variables: tuple[VariableTimeRow, ...]


def show_profile(sheet: ProfileSheet, console: Console | None = None, *, show_all: bool = False) -> None:
    """Show a profile, on standard output by default.

    Args:
        sheet: What to show.
        console: Where to.
        show_all: All types of operations and all variables; else those that take the longest.
    """
    console = console or table_console()
    console.print(_totals(sheet), soft_wrap=True)
    console.print()
    _show_ops(sheet, console, show_all)
    console.print()
    _show_variables(sheet.variables, console, show_all)


def _totals(sheet: ProfileSheet) -> str:
    lines = {
        "step": f"{milliseconds(sheet.step_s)} ms, forward and backward pass of {counted(sheet.batch_size, 'example')}"
        f" (estimate: {milliseconds(sheet.estimated_s)} ms)",
        "processor": f"{milliseconds(sheet.processor_s)} ms over all cores{_WAITED if sheet.is_disturbed else ''}",
        "device": sheet.device,
        "seen": f"{sheet.coverage:.0%} of the operations; TensorFlow folds the others into constants or their readers",
    }
    return "\n".join(f"{name:>9}  {value}" for name, value in lines.items())


def _show_ops(sheet: ProfileSheet, console: Console, show_all: bool) -> None:
    total_s = sum(row.measured_s for row in sheet.ops) or 1.0
    rows = sheet.ops if show_all else sheet.ops[:_MANY_OPS]
    columns = {
        "Operation": [row.op for row in rows],
        "ms": [milliseconds(row.measured_s) for row in rows],
        "Part": [f"{row.measured_s / total_s:.0%}" for row in rows],
        "Estimate": [_estimate(row.estimated_s) for row in rows],
    }
    console.print(fitted(columns, console.width, right=("ms", "Part", "Estimate"), shrink={"Operation": 16}))
    others = sheet.ops[len(rows) :]
    if others:
        rest = milliseconds(sum(row.measured_s for row in others))
        console.print(f"and {len(others)} other types, {rest} ms in all; `--all` shows each", soft_wrap=True)


def _estimate(seconds: float) -> str:
    return milliseconds(seconds) if seconds else "-"


def _show_variables(variables: Sequence[VariableTimeRow], console: Console, show_all: bool) -> None:
    rows = list(variables)
    if not show_all and len(rows) > _MANY_VARIABLES:
        least_s = sorted((row.busy_s for row in rows), reverse=True)[_MANY_VARIABLES - 1]
        rows = [row for row in rows if row.busy_s >= least_s][:_MANY_VARIABLES]
    columns = {
        "Variable": [row.name for row in rows],
        "Needed ms": [milliseconds(row.needed_s) for row in rows],
        "Ready ms": [milliseconds(row.ready_s) for row in rows],
        "Estimate": [_estimate(row.estimated_ready_s) for row in rows],
        "Busy ms": [milliseconds(row.busy_s) for row in rows],
    }
    right = ("Needed ms", "Ready ms", "Estimate", "Busy ms")
    console.print(fitted(columns, console.width, right=right, shrink={"Variable": 16}))
    left_out = len(variables) - len(rows)
    if left_out:
        console.print(f"and {counted(left_out, 'variable')} with less to do; `--all` shows each", soft_wrap=True)
