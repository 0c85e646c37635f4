"""Tables that stay within the width of a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from autodist.report._escapes import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPED_WIDTH = 200
_GAP = 2
_PIECES = re.compile(r"\s*[^\s/,(=_:-]*[/,(=_:-]*")
_NARROWEST = (7, 5, 3)
"""Widths to which the columns that may shrink shrink further, step by step, the first column last."""


def table_console() -> Console:
    """For tables on standard output: as wide as the terminal, or wide if it is not one."""
    from rich.console import Console

    is_free = "COLUMNS" not in os.environ
    console = Console(markup=False, highlight=False, emoji=False)
    if is_free and not console.is_terminal:
        console = Console(markup=False, highlight=False, emoji=False, width=_PIPED_WIDTH)
    return console


def megabytes(size_bytes: float) -> str:
    """Bytes as megabytes of 10^6, with three digits that count.

    Example:
        >>> [megabytes(size) for size in (0, 40, 4_000, 4_194_304, 123_456_789)]
        ['0', '<0.001', '0.004', '4.19', '123']
    """
    value = size_bytes / 1e6
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.3f}".rstrip("0").rstrip(".")


def name_pattern(name: str) -> str:
    """A name without its numbers: what the layers of a model have in common.

    Example:
        >>> name_pattern("layer_12/kernel")
        'layer_*/kernel'
    """
    return re.sub("[0-9]+", "*", name)


def common_name(names: Sequence[str]) -> str:
    """Names of one pattern as one, with stars where they differ.

    Example:
        >>> common_name(["block2/layer_1/kernel", "block2/layer_2/kernel"])
        'block2/layer_*/kernel'
    """
    parts = [re.split("([0-9]+)", name) for name in names]
    return "".join(texts[0] if len(set(texts)) == 1 else "*" for texts in zip(*parts, strict=True))


def fitted(
    columns: Mapping[str, Sequence[str]],
    width: int,
    *,
    right: Sequence[str] = (),
    shrink: Mapping[str, int],
    ends: bool = True,
) -> Table:
    """A table of no more than this width, if the columns that may shrink allow it.

    Args:
        columns: By header, the cells; columns with no text at all are left out.
        width: Columns of the terminal.
        right: Headers of columns of numbers.
        shrink: Headers of columns that may get narrower, and how narrow. The first gives way first. Their cells take
            several lines, which end where words do; a word that is too long for a line keeps its beginning.
        ends: Whether cells of the first of these take one line instead, and keep their ends, which tell variables
            apart.

    Example:
        >>> table = fitted({"Name": ["a/long/name"], "n": ["1"]}, 10, shrink={"Name": 5})
        >>> [column._cells[0].plain for column in table.columns]
        ['…g/name', '1']
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = {header: [plain(cell) for cell in cells] for header, cells in columns.items() if any(cells)}
    widths = {header: max(map(len, [header, *cells])) for header, cells in used.items()}
    # Headers are broken only where it must be.
    steps = [(h, max(n, len(h))) for h, n in shrink.items()] + [
        (h, n) for n in _NARROWEST for h in reversed(tuple(shrink))
    ]
    for header, narrowest in steps:
        excess = sum(widths.values()) + _GAP * (len(widths) - 1) - width
        if header in widths and excess > 0:
            widths[header] = max(min(narrowest, widths[header]), widths[header] - excess)
    cut = next(iter(shrink), None) if ends else None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for header in used:
        justify: Literal["left", "right"] = "right" if header in right else "left"
        table.add_column(
            _wrapped(header, widths[header]),
            justify=justify,
            overflow="fold",
            min_width=widths[header],
            max_width=widths[header],
        )
    for cells in zip(*used.values(), strict=True):
        texts = (
            (_end if header == cut else _wrapped)(cell, widths[header])
            for header, cell in zip(used, cells, strict=True)
        )
        table.add_row(*map(Text, texts))
    return table


def _wrapped(text: str, width: int) -> str:
    """Return the text in lines that end after words or the signs that join them.

    Example:
        >>> print(_wrapped("AllReduce(chunk_size=64) unbelievable", 11))
        AllReduce(
        chunk_size=
        64)
        unbelievab…
    """
    lines = [""]
    for piece in filter(None, _PIECES.findall(text)):
        if len(lines[-1]) + len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            piece = piece.lstrip()
            lines.append(piece if len(piece) <= width else f"{piece[: width - 1]}…")
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
