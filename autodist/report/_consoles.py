"""The two places where text goes: results to standard output, everything else to standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def output_console() -> Console:
    """For results, which may be piped; obeys ``NO_COLOR`` and knows whether it is a terminal."""
    return _console(is_error=False)


def error_console() -> Console:
    """For progress, warnings and errors."""
    return _console(is_error=True)


def _console(is_error: bool) -> Console:
    from rich.console import Console

    # Paths and messages are literals: no markup, no guessed colours, no line ends where the terminal happens to end.
    return Console(stderr=is_error, markup=False, highlight=False, emoji=False, soft_wrap=True)
