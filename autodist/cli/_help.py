"""How help looks: nothing is cut, and no option's name is broken at the end of a line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import click

_KEPT = "\u2011"
"""A hyphen at which no line ends; the text that is shown has ordinary ones."""


class _Formatter(click.HelpFormatter):
    def write_text(self, text: str) -> None:
        super().write_text(_held(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(_held(first), _held(second)) for first, second in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_KEPT, "-")


class HelpContext(click.Context):
    """The context of all commands."""

    formatter_class = _Formatter


class WholeGroup(click.Group):
    """A group whose help shows the whole first sentence of each command's help."""

    context_class = HelpContext

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line or more for each command."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary_of(command)) for name, command in commands if command is not None])


def _summary_of(command: click.Command) -> str:
    """Return the first paragraph of a command's help, whole."""
    text = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(text.split())


def _held(text: str) -> str:
    return text.replace("-", _KEPT)
