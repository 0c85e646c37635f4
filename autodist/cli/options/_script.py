"""The arguments that say what the workers run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class ScriptWords:
    """Arguments that :func:`script_argument` adds to a command, as given; the command takes it as ``script``.

    Attributes:
        text: A path, or the name of a module.
        args: What follows ``--``.
        is_module: Whether it is a module.
    """

    text: str
    args: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The script as it is typed, without its arguments."""
        return ("-m", self.text) if self.is_module else (self.text,)


def script_argument(default: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make what adds SCRIPT, its arguments and ``-m``.

    Args:
        default: What SCRIPT is if it is not given; None if it must be.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def gathered(*, script: str, script_args: tuple[str, ...], module: bool, **given: Any) -> Any:
            return command(script=ScriptWords(script, script_args, module), **given)

        decorated: Callable[..., Any] = gathered
        optional: dict[str, Any] = {} if default is None else {"default": default}
        options = (
            click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in `-m package.train`."),
            click.argument("script_args", nargs=-1, metavar="[-- ARGS...]", type=click.UNPROCESSED),
            click.argument("script", **optional),
        )
        for option in options:
            decorated = option(decorated)
        return decorated

    return decorate
