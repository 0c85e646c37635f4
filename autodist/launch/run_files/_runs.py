"""All runs below a directory, and the one that a user means."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path

from autodist.errors import LaunchError, UsageError
from autodist.launch.run_files._status import STATUS_FILE, read_status
from autodist.report import RunStatus

RUNS = Path("runs")
_LATEST = "latest"


def list_runs(root: Path = RUNS, on_error: Callable[[LaunchError], None] = lambda error: None) -> list[RunStatus]:
    """Return the states of the runs below ``root``, newest first.

    Args:
        root: Where the directories of runs are.
        on_error: Called with what is wrong with a run that can't be read; it is left out.
    """
    found = []
    for directory in _directories(root):
        try:
            found.append(read_status(directory))
        except LaunchError as error:
            on_error(error)
    return sorted(found, key=lambda run: run.started_at, reverse=True)


def find_run(text: str, root: Path = RUNS) -> Path:
    """Return the directory of the run that ``text`` names: by its name, a path, or the beginning of one name only.

    Raises:
        UsageError: There is none, or more than one.
    """
    for path in (root / text, Path(text)):
        if (path / STATUS_FILE).is_file():
            return path.resolve()
    names = sorted(directory.name for directory in _directories(root))
    begun = [name for name in names if text and name.startswith(text)]
    if len(begun) == 1:
        return (root / begun[0]).resolve()
    if begun:
        raise UsageError(
            f"`{text}` is the beginning of {len(begun)} runs: {', '.join(f'`{name}`' for name in begun[-5:])}",
            hint="write more of the name",
        )
    if not names:
        raise UsageError(
            f"`{text}` is not a run, there are no runs in `{root.resolve()}`",
            hint="go where `autodist run` was started, or give the path of the run's directory",
        )
    near = difflib.get_close_matches(text, [*names, _LATEST], n=1)
    proposal = f", did you mean `{near[0]}`?" if near and near[0] != text else ""
    where = "there is 1 run" if len(names) == 1 else f"there are {len(names)} runs"
    hint = f"{where} in `{root.resolve()}`; `autodist status` lists them, a path will do too"
    raise UsageError(f"`{text}` is not a run{proposal}", hint=hint)


def _directories(root: Path) -> Iterator[Path]:
    if root.is_dir():
        yield from (path for path in root.iterdir() if not path.is_symlink() and (path / STATUS_FILE).is_file())
