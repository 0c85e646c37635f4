"""The directory of a run; the only place that knows the names of its files."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from autodist import carriers
from autodist.documents import whole_file
from autodist.error_text import said_by
from autodist.errors import LaunchError, UsageError
from autodist.launch._secrets import mask_command, mask_secrets, without_secrets
from autodist.resource_spec import ResourceSpec

_LAUNCHERS_OWN = ("spec.json", "command.txt", "env.json", "events.jsonl", "summary.json", "status.json")
_WORKERS_OWN = (
    *("logs/[0-9]*.log", "logs/attempt-*/[0-9]*.log", "strategy.json", "strategy.[0-9]*.json", "strategy.yml"),
    *("graph.zip", "graph.[0-9]*.zip", "exchanged.json", "exchanged.[0-9]*.json"),
)
_TAIL_BYTES = 64 * 1024
_SHOWN_VARIABLES = ("AUTODIST_", "TF_", "CUDA_", "OMP_", "MKL_", "KERAS_", "XLA_")
_SHOWN_NAMES = frozenset(
    {
        *("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LANG", "TZ"),
    }
)


@dataclass(frozen=True)
class RunDirectory:
    """Files of one run, below ``path``.

    Attributes:
        run_id: Identity of the run.
        path: Absolute path of the directory.
    """

    run_id: str
    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path | None = None, attempt: int = 0) -> RunDirectory:
        """Make a new directory, ``runs/<id>`` with a link ``runs/latest`` if no path is given.

        For an attempt other than the first take the directory of the earlier ones.

        Raises:
            UsageError: The path holds something already.
            LaunchError: The directory can't be made.
        """
        run_id = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        target = (Path("runs") / run_id if path is None else path).absolute()
        try:
            if attempt and path is not None:
                return cls(_run_id_in(target) or run_id, target)
            target.mkdir(parents=True, exist_ok=True)
            if any(target.iterdir()):
                raise UsageError(
                    f"the run directory `{target}` is not empty", hint="give a new `--run-dir`, or leave it out"
                )
            directory = cls(run_id, target)
            directory.logs.mkdir()
        except OSError as error:
            raise _not_made(target, error) from error
        if path is None:
            _link_latest(target)
        return directory

    @classmethod
    def of_command(cls, path: Path) -> RunDirectory:
        """The directory of a command that looks at a step instead of training; it may have been there before.

        Raises:
            LaunchError: It can't be made.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_made(path, error) from error
        return cls(path.name, path.absolute())

    @property
    def spec(self) -> Path:
        """The resolved resource spec as JSON."""
        return self.path / "spec.json"

    @property
    def strategy(self) -> Path:
        """A copy of the strategy, if the run was given one as a file; a plan's is next to it, `strategy.yml`."""
        return self.path / "strategy.json"

    @property
    def logs(self) -> Path:
        """One file per rank."""
        return self.path / "logs"

    def log(self, rank: int) -> Path:
        """Return what a worker wrote to standard output and standard error."""
        return self.logs / f"{rank}.log"

    def put_logs_aside(self, attempt: int) -> Path:
        """Make room for the logs of a further attempt, and return where those of this one are now.

        Raises:
            OSError: For example, the disk is full; the logs are where they were.
        """
        aside = self.logs / f"attempt-{attempt}"
        for path in sorted(self.logs.glob("*.log")):
            aside.mkdir(exist_ok=True)
            path.rename(aside / path.name)
        return aside

    def write_command(self, argv: Sequence[str]) -> None:
        """Keep the command line that started the run, ready to be pasted into a shell, without secrets of ``--env``."""
        command = shlex.join(mask_command(argv))
        text = f"cd {shlex.quote(os.getcwd())} && {command}\n"
        (self.path / "command.txt").write_text(text, encoding="utf-8", errors="surrogateescape")

    def write_spec(self, spec: ResourceSpec) -> None:
        """Keep the spec for the workers to read; they have its variables already, so the secret ones are left out."""
        self.spec.write_text(without_secrets(spec).to_json() + "\n")

    def write_environment(self, env: Mapping[str, str]) -> None:
        """Keep the variables that matter for a run; values of what looks like a secret are masked."""
        self._write_json("env.json", dict(sorted(mask_secrets(_telling(env)).items())))

    def write_summary(self, summary: Mapping[str, Any]) -> str:
        """Keep how the run ended; return why that failed, else nothing: a full disk must not cost the result."""
        return self._write_json("summary.json", summary)

    def amend_summary(self, **fields: object) -> None:
        """Add to how the run ended, as far as that is kept."""
        path = self.path / "summary.json"
        summary = json.loads(path.read_text()) if path.is_file() else {}
        self.write_summary({**summary, **fields})

    def event(self, name: str, **fields: object) -> None:
        """Add a line to ``events.jsonl``; safe from any thread."""
        now = datetime.datetime.now(datetime.timezone.utc)
        line = json.dumps({"time": now.isoformat(timespec="milliseconds"), "event": name, **fields}, default=str)
        # A full disk must not take the run with it.
        with self._lock, contextlib.suppress(OSError), (self.path / "events.jsonl").open("a") as file:
            file.write(line + "\n")

    def tail(self, rank: int, num_lines: int) -> tuple[str, ...]:
        """Return the last lines a worker wrote."""
        try:
            with self.log(rank).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ()
        return tuple(text.splitlines()[-num_lines:])

    def _write_json(self, name: str, value: Mapping[str, Any]) -> str:
        """Write one of the files about the run, whole or not at all; return why that failed, else nothing."""
        try:
            with whole_file(self.path / name) as draft:
                draft.write_text(json.dumps(value, indent=2, default=str) + "\n")
        except OSError as error:
            return f"`{self.path / name}` can't be written: {said_by(error)}"
        return ""


def _run_id_in(path: Path) -> str | None:
    """Return the run to which a directory belongs."""
    with contextlib.suppress(OSError, ValueError):
        return str(json.loads((path / "env.json").read_text())["AUTODIST_RUN_ID"])
    return None


def is_launchers_own(path: PurePosixPath) -> bool:
    """Whether a path below the directory is that of a file which only the launcher writes."""
    return path.parts[:1] == ("logs",) or str(path) in _LAUNCHERS_OWN


def files_of_run(path: Path) -> Iterator[Path]:
    """Yield the files of a run, or of a search with its workers, that AutoDist has written."""
    for pattern in (*_LAUNCHERS_OWN, *_WORKERS_OWN):
        yield from (file for file in sorted(path.glob(pattern)) if file.is_file() and not file.is_symlink())
    for workers in sorted(path.glob("workers-*")):
        if (workers / "status.json").is_file():
            yield from files_of_run(workers)


def _telling(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter for a run."""
    of_carriers = (carrier.variable_prefix for carrier in carriers.carriers())
    prefixes = (*_SHOWN_VARIABLES, *filter(None, of_carriers))
    return {name: value for name, value in env.items() if name in _SHOWN_NAMES or name.startswith(prefixes)}


def _link_latest(target: Path) -> None:
    """Point ``runs/latest`` at a run; several runs may do so at the same time, and a link is only a convenience."""
    link = target.parent / "latest"
    temporary = target.parent / f".latest-{target.name}"
    if link.exists() and not link.is_symlink():
        return  # somebody's own
    try:
        temporary.symlink_to(target.name)
        temporary.replace(link)
    except OSError:
        temporary.unlink(missing_ok=True)


def _not_made(path: Path, error: OSError) -> LaunchError:
    return LaunchError(
        f"the run directory `{path}` can't be made: {error.strerror or error}",
        hint="give a `--run-dir` in which you may write",
    )
