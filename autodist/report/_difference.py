"""What differs between two strategies, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.report._cells import fitted, megabytes, table_console
from autodist.strategies import Difference, StrategyDiff

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show_difference"]

_MANY_ROWS = 40


def show_difference(
    found: StrategyDiff, names: tuple[str, str], console: Console | None = None, *, show_all: bool = False
) -> None:
    """Show what differs, on standard output by default.

    Args:
        found: What to show.
        names: What the user calls the two strategies.
        console: Where to.
        show_all: All lines; else the first ones, where there are many.

    """
    console = console or table_console()
    if found.is_same:
        console.print(f"the same strategy, {found.id_a}", soft_wrap=True)
    else:
        for mark, name, identity, builder in (
            ("A", names[0], found.id_a, found.builder_a),
            ("B", names[1], found.id_b, found.builder_b),
        ):
            console.print(f"{mark}  {name}  {identity}  {builder}".rstrip(), soft_wrap=True)
        _show_rows(found.differences, console, show_all)
    _show_totals(found, console)


def _show_rows(differences: tuple[Difference, ...], console: Console, show_all: bool) -> None:
    shown = differences if show_all else differences[:_MANY_ROWS]
    columns = {
        "Variable": [_subject(difference) for difference in shown],
        "Aspect": [difference.aspect for difference in shown],
        "A": [difference.a or "-" for difference in shown],
        "B": [difference.b or "-" for difference in shown],
    }
    console.print(fitted(columns, console.width, shrink={"Variable": 24, "A": 16, "B": 16}))
    console.print()
    if len(shown) < len(differences):
        console.print(f"and {len(differences) - len(shown)} more; `--all` shows each\n", soft_wrap=True)


def _subject(difference: Difference) -> str:
    if difference.variable is None:
        return "(graph)"
    return difference.variable if difference.shard is None else f"{difference.variable} [{difference.shard}]"


def _show_totals(found: StrategyDiff, console: Console) -> None:
    if found.sent_a is None or found.sent_b is None:
        return
    a, b = found.sent_a, found.sent_b
    columns = {
        "Host sends per step": [*a, "all"],
        "A MB": [megabytes(size) for size in (*a.values(), sum(a.values()))],
        "B MB": [megabytes(size) for size in (*b.values(), sum(b.values()))],
    }
    console.print(fitted(columns, console.width, right=("A MB", "B MB"), shrink={"Host sends per step": 12}))
