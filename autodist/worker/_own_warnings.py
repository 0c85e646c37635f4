"""AutoDist's own warnings in a run: one line, without the line of its code that warns."""

from __future__ import annotations

import warnings


def show_own_warnings_in_a_line() -> None:
    """Show warnings of AutoDist's own categories as the command line does; all others as Python shows them.

    Where AutoDist's code warns says nothing to who wrote the script.
    """
    shown = warnings.formatwarning

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if category.__module__.partition(".")[0] == "autodist":
            return f"warning: {message}\n"
        return shown(message, category, filename, lineno, line)

    warnings.formatwarning = formatted
