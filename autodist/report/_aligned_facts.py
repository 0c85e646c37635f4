"""Names with values, aligned."""

from __future__ import annotations

from collections.abc import Mapping

from autodist.report._consoles import output_console


def show_facts(facts: Mapping[str, object]) -> None:
    """Show one line per fact, on standard output.

    Example:
        >>> show_facts({"Python": "3.11.7", "cores": 8})
        Python  3.11.7
        cores   8
    """
    width = max((len(name) for name in facts), default=0)
    console = output_console()
    for name, value in facts.items():
        console.print(f"{name:<{width}}  {value}")
