"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autodist.errors import UsageError

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

__all__ = [
    "RanksType",
    "cluster_options",
    "debug_option",
    "environment_options",
    "is_debugging",
    "load_spec",
    "resolve_environment",
    "resolve_spec",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DEBUG = "AUTODIST_DEBUG"
_DEFAULT_SPEC = Path("cluster.yml")


def debug_option(command: _Command) -> _Command:
    """Add ``--debug``; workers learn of it by their environment."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show tracebacks, also of errors that AutoDist explains.",
    )(command)


def cluster_options(command: _Command) -> _Command:
    """Add what says which cluster is meant: ``--spec``, ``--workers``, ``--replicas``."""
    options = (
        click.option("--replicas", type=int, help="CPU devices of each worker on this machine, instead of --spec."),
        click.option("-n", "--workers", type=int, help="Workers on this machine, instead of --spec."),
        click.option(
            "--spec", metavar="FILE", help="The cluster. Default: ./cluster.yml if it is there, else this machine."
        ),
    )
    for option in options:
        command = option(command)
    return command


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
        UsageError: Some of them are no variables, or are not set.

    """
    from autodist.launch import is_secret, requested_environment
    from autodist.report import show_warning

    found = requested_environment(variables, [Path(file) for file in files])
    for name in (text.partition("=")[0] for text in variables if "=" in text):
        if is_secret(name):
            hint = f"set it in the environment and give `--env {name}`, or write it into a file for `--env-file`"
            show_warning(f"everybody on this machine can see the value of `{name}` in the process list", hint)
    return found


def resolve_spec(path: str | None, workers: int | None, replicas: int | None) -> ResourceSpec:
    """Return the cluster that the options mean.

    Raises:
        UsageError: A file and numbers of workers or replicas were given.
        SpecError: The file has mistakes.

    """
    from autodist.resource_spec import ResourceSpec

    if path is not None and (workers is not None or replicas is not None):
        given = "--workers" if workers is not None else "--replicas"
        raise UsageError(
            f"`--spec` and `{given}` were given, they exclude each other",
            hint="the file says how many workers there are; leave one of the two out",
        )
    if path is not None:
        return load_spec(path)
    if workers is None and replicas is None and _DEFAULT_SPEC.is_file():
        return ResourceSpec.from_file(_DEFAULT_SPEC)
    return ResourceSpec.local(1 if workers is None else workers, replicas)


def load_spec(path: str | Path) -> ResourceSpec:
    """Read a spec in YAML, or in the JSON that a run directory has.

    Raises:
        SpecError: The file can't be read, or has mistakes.

    """
    from autodist.errors import SpecError
    from autodist.resource_spec import ResourceSpec

    if Path(path).suffix != ".json":
        return ResourceSpec.from_file(path)
    try:
        return ResourceSpec.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"the resource spec `{path}` can't be read: {reason}") from error
    except SpecError as error:
        raise SpecError(f"`{path}`: {error.message}", hint=error.hint) from error


def is_debugging() -> bool:
    """Whether tracebacks are wanted."""
    return bool(os.environ.get(_DEBUG))


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ[_DEBUG] = "1"


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
                self.fail(f"`{value}` is no list of ranks, write it like `0,2-3`", param, ctx)
            ranks.update(range(int(first), int(last) + 1))
        return frozenset(ranks)
