"""Differences between two strategies, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.report._cells import common_name, fitted, megabytes, name_pattern, table_console

if TYPE_CHECKING:
    from rich.console import Console

    from autodist.strategies import Difference, StrategyDiff

_MANY_ROWS = 40


def show_difference(found: StrategyDiff, names: tuple[str, str], *, show_all: bool = False) -> None:
    """Show what differs, on standard output.

    Args:
        found: What to show.
        names: What the user calls the two strategies.
        show_all: All lines; else, where there are many, those that differ only by a number in the name share one.
    """
    console = table_console()
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
    merged = _merged(differences, show_all)
    shown = merged if show_all else merged[:_MANY_ROWS]
    columns = {
        "Variable": [common_name([_subject(difference) for difference in alike]) for alike in shown],
        "Times": [f"{len(alike)}" if len(alike) > 1 else "" for alike in shown],
        "Aspect": [alike[0].aspect for alike in shown],
        "A": [alike[0].a or "-" for alike in shown],
        "B": [alike[0].b or "-" for alike in shown],
    }
    console.print(fitted(columns, console.width, right=("Times",), shrink={"Variable": 24, "A": 16, "B": 16}))
    console.print()
    left_out = sum(map(len, merged)) - sum(map(len, shown))
    if left_out:
        console.print(f"and {left_out} more; `--all` shows each\n", soft_wrap=True)


def _merged(differences: tuple[Difference, ...], show_all: bool) -> list[list[Difference]]:
    """Lines that say the same about variables whose names differ by a number, if there are many."""
    if show_all or len(differences) <= _MANY_ROWS:
        return [[difference] for difference in differences]
    alike: dict[tuple[object, ...], list[Difference]] = {}
    for found in differences:
        key = (name_pattern(_subject(found)), found.shard, found.aspect, found.a, found.b)
        alike.setdefault(key, []).append(found)
    return list(alike.values())


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
