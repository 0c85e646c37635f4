"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DEBUG = "AUTODIST_DEBUG"


def debug_option(command: _Command) -> _Command:
    """Add ``--debug``; workers learn of it by their environment."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show tracebacks, also of errors that AutoDist explains.",
    )(command)


def environment_options(command: _Command) -> _Command:
    """Add ``--env`` and ``--env-file``, as ``env`` and ``env_file``."""
    options = (
        click.option("--env-file", metavar="FILE", multiple=True, help="NAME=VALUE or NAME, one per line. Repeatable."),
        click.option(
            "--env",
            metavar="NAME[=VALUE]",
            multiple=True,
            help="Variable for all workers; without a value, the launcher's own. Repeatable.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def resolve_environment(variables: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """Return the variables that ``--env`` and ``--env-file`` mean; warns of secrets that the process list shows.

    Raises:
        UsageError: Some of them are not variables, or are not set.
    """
    from autodist.launch import is_secret, requested_environment
    from autodist.report import show_warning

    found = requested_environment(variables, [Path(file) for file in files])
    for name in (text.partition("=")[0] for text in variables if "=" in text):
        if is_secret(name):
            hint = f"set it in the environment and give `--env {name}`, or write it into a file for `--env-file`"
            show_warning(f"everybody on this machine can see the value of `{name}` in the process list", hint)
    return found


def typed_options() -> dict[str, str]:
    """Return the options that were given on the command line, by parameter, as they are typed."""
    context = click.get_current_context()
    options = [p for p in context.command.params if isinstance(p, click.Option) and p.name is not None]
    typed = [p for p in options if context.get_parameter_source(str(p.name)) is ParameterSource.COMMANDLINE]
    return {str(p.name): max(p.opts, key=len) for p in typed}


def is_debugging() -> bool:
    """Whether tracebacks are wanted."""
    return bool(os.environ.get(_DEBUG))


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ[_DEBUG] = "1"


class NamesOption(click.Option):
    """An option whose help lists names, which are looked up only when it is shown.

    Args:
        names: What is put into the ``{}`` of the help.
    """

    def __init__(self, *args: Any, names: Callable[[], Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names = names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Write the option's line of the help."""
        if self.help is not None:
            self.help = self.help.format(", ".join(self._names()))
        return super().get_help_record(ctx)


class RanksType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A list of ranks and ranges of them, ``0,4-7``.

    Example:
        >>> sorted(RanksType().convert("0,4-6", None, None))
        [0, 4, 5, 6]
    """

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """Return the ranks, as a set."""
        if isinstance(value, frozenset):
            return value
        ranks: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            last = last if dash else first
            if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < 100_000):
                self.fail(f"`{value}` is not a list of ranks, write it like `0,2-3`", param, ctx)
            ranks.update(range(int(first), int(last) + 1))
        return frozenset(ranks)
