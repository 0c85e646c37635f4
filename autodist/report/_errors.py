"""How an error looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.errors import AutoDistError
from autodist.report._consoles import error_console

if TYPE_CHECKING:
    from rich.console import Console


def show_error(error: AutoDistError) -> None:
    """Show an error with its hint, on standard error."""
    show_message(error.message, error.hint, error_console())


def show_message(message: str, hint: str | None, console: Console) -> None:
    """Show ``error: ...``, and ``hint: ...`` after a blank line."""
    from rich.text import Text

    console.print(Text.assemble(("error: ", "bold red"), message))
    if hint:
        console.print()
        console.print(Text.assemble(("hint: ", "cyan"), hint))


def show_warning(message: str, hint: str | None = None) -> None:
    """Show ``warning: ...`` with what to do about it, on standard error."""
    from rich.text import Text

    parts = (("warning: ", "yellow"), message, f"; {hint}" if hint else "")
    error_console().print(Text.assemble(*parts))
