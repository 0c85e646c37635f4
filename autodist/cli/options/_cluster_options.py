"""The options that say which cluster is meant."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autodist.errors import UsageError

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec

DEFAULT_SPEC = Path("cluster.yml")
"""The file that is read if nothing says which cluster is meant."""


@dataclass(frozen=True)
class ClusterOptions:
    """Options that :func:`cluster_options` adds to a command, as given; the command takes it as ``cluster``.

    Attributes:
        spec: File of ``--spec``.
        hosts: Text of ``--hosts``.
        hostfile: File of ``--hostfile``.
        workers: Number of ``--workers``.
        replicas: Number of ``--replicas``.
    """

    spec: str | None = None
    hosts: str | None = None
    hostfile: str | None = None
    workers: int | None = None
    replicas: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as they are typed."""
        return tuple(f"--{field.name}" for field in fields(self) if getattr(self, field.name) is not None)

    @property
    def words(self) -> tuple[str, ...]:
        """The options with their values, by which another command means the same cluster."""
        return tuple(word for option in self.given for word in (option, str(getattr(self, option[2:]))))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says which cluster is meant: ``--spec``, ``-H``, ``--hostfile``, or ``--workers`` and ``--replicas``."""

    @functools.wraps(command)
    def gathered(**given: Any) -> Any:
        cluster = ClusterOptions(**{field.name: given.pop(field.name) for field in fields(ClusterOptions)})
        return command(cluster=cluster, **given)

    options = (
        click.option("--replicas", type=int, help="CPU devices of each worker on this machine, instead of --spec."),
        click.option("-n", "-np", "--workers", type=int, help="Workers on this machine, instead of --spec."),
        click.option("--hostfile", metavar="FILE", help="The cluster as MPI's hostfile, with lines like `a slots=2`."),
        click.option("-H", "--hosts", metavar="LIST", help="The cluster as a list like a:2,b:2, instead of --spec."),
        click.option(
            "--spec",
            metavar="FILE",
            help="The cluster. Default: a Slurm job's allocation, else ./cluster.yml if there, else this machine.",
        ),
    )
    decorated: Callable[..., Any] = gathered
    for option in options:
        decorated = option(decorated)
    return decorated


def resolve_spec(cluster: ClusterOptions) -> ResourceSpec:
    """Return the cluster that the options mean.

    Raises:
        UsageError: Options that exclude each other.
        SpecError: What is given has mistakes.
    """
    from autodist.resource_spec import ResourceSpec, is_in_slurm, parse_hosts, read_hostfile, read_slurm

    _refuse_several(cluster)
    if cluster.spec is not None:
        return load_spec(cluster.spec)
    if cluster.given:
        _say_that_the_file_is_left_out(f"`{cluster.given[0]}` says what the cluster is")
    if cluster.hosts is not None:
        return parse_hosts(cluster.hosts)
    if cluster.hostfile is not None:
        return read_hostfile(cluster.hostfile)
    if not cluster.given and is_in_slurm(os.environ):
        _say_that_the_file_is_left_out("the cluster is the Slurm allocation")
        return read_slurm(os.environ)
    if not cluster.given and DEFAULT_SPEC.is_file():
        return ResourceSpec.from_file(DEFAULT_SPEC)
    return ResourceSpec.local(1 if cluster.workers is None else cluster.workers, cluster.replicas)


def _refuse_several(cluster: ClusterOptions) -> None:
    sources = [option for option in cluster.given if option != "--replicas" or cluster.workers is None]
    if len(sources) > 1:
        listed = " and ".join(f"`{option}`" for option in sources[:2])
        raise UsageError(
            f"{listed} were given, they exclude each other",
            hint="each says what the cluster is; leave one of the two out",
        )


def _say_that_the_file_is_left_out(why: str) -> None:
    if DEFAULT_SPEC.is_file():
        from autodist.report import error_console

        text = f"autodist: {why}; `--spec {DEFAULT_SPEC}` takes the file that is here"
        error_console().print(text, style="dim", highlight=False)


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
