"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autodist.errors import UsageError

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

__all__ = ["RanksType", "cluster_options", "debug_option", "is_debugging", "load_spec", "resolve_spec"]

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
