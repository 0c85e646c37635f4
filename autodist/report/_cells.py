"""Tables that stay within the width of a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autodist.report._escapes import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["fitted", "megabytes", "table_console"]

_PIPED_WIDTH = 200
_GAP = 2


def table_console() -> Console:
    """For tables on standard output: as wide as the terminal, or wide where nobody looks at line ends."""
    from rich.console import Console

    is_free = "COLUMNS" not in os.environ
    console = Console(markup=False, highlight=False, emoji=False)
    if is_free and not console.is_terminal:
        console = Console(markup=False, highlight=False, emoji=False, width=_PIPED_WIDTH)
    return console


def megabytes(size_bytes: float) -> str:
    """Bytes as megabytes of 10^6, with as many places as are worth it.

    Example:
        >>> [megabytes(size) for size in (0, 40, 4_000, 4_194_304, 123_456_789)]
        ['0', '0.00004', '0.004', '4.19', '123']

    """
    value = size_bytes / 1e6
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    if value >= 0.01:
        return f"{value:.3g}"
    return f"{value:.1g}" if value >= 0.0001 else f"{value:.5f}".rstrip("0") or "0"


def fitted(
    columns: Mapping[str, Sequence[str]], width: int, *, right: Sequence[str] = (), shrink: Mapping[str, int]
) -> Table:
    """A table of no more than this width, if the columns that may shrink allow it.

    Args:
        columns: By header, the cells; columns with no text at all are left out.
        width: Columns of the terminal.
        right: Headers of columns of numbers.
        shrink: Headers of columns that lose the beginnings of their texts, and how narrow they may get. The first
            gives way first.

    Example:
        >>> table = fitted({"Name": ["a/long/name"], "n": ["1"]}, 12, shrink={"Name": 5})
        >>> [column._cells[0].plain for column in table.columns]
        ['…g/name', '1']

    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = {header: [plain(cell) for cell in cells] for header, cells in columns.items() if any(cells)}
    widths = {header: max(map(len, [header, *cells])) for header, cells in used.items()}
    for header, narrowest in shrink.items():
        excess = sum(widths.values()) + _GAP * len(widths) + 1 - width
        if header in widths and excess > 0:
            widths[header] = max(min(narrowest, widths[header]), widths[header] - excess, len(header))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 1), pad_edge=False)
    for header in used:
        table.add_column(header, justify="right" if header in right else "left", no_wrap=True)
    for cells in zip(*used.values(), strict=True):
        table.add_row(*(Text(_cut(c, widths[header])) for header, c in zip(used, cells, strict=True)))
    return table


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
