"""Launchers for commands that look at a step instead of training, and the places of their files."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodist.errors import AutoDistError

if TYPE_CHECKING:
    from autodist.launch import ClusterLauncher
    from autodist.report import SearchConsole


_INTERRUPTED = 130


def new_directory(command: str) -> Path:
    """Return where a command's run has its files, if the user does not say."""
    return Path("runs", f"{command}-{secrets.token_hex(3)}")


@contextlib.contextmanager
def kept_as_run(command: str, script: str, run_dir: Path, strategy: str = "") -> Iterator[None]:
    """Let `autodist status` know of what is done inside, and `autodist stop` end it."""
    from autodist.launch import RunDirectory, StatusKeeper
    from autodist.report import RunState

    directory = RunDirectory.of_command(run_dir)
    try:
        with StatusKeeper(directory, (), command=command, script=script, strategy=strategy) as status:
            status.enter(RunState.RUNNING)
            try:
                yield
            except KeyboardInterrupt:
                status.end(_INTERRUPTED)
                raise
            status.end(0)
    except AutoDistError:
        _forget(run_dir)
        raise


def _forget(run_dir: Path) -> None:
    """Remove the directory of a run that was refused before it began."""
    if [path.name for path in run_dir.iterdir()] == ["status.json"]:
        (run_dir / "status.json").unlink()
        with contextlib.suppress(OSError):  # other runs are there
            run_dir.rmdir()
            run_dir.parent.rmdir()


def silent_launcher(console: SearchConsole, road: Any) -> ClusterLauncher:
    """Return what starts the workers; their lines are in the logs alone."""
    from autodist.launch import ClusterLauncher, SilentObserver

    class Notices(SilentObserver):
        notice = staticmethod(console.notice)

    return ClusterLauncher(Notices(), road)
