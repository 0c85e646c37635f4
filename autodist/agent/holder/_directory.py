"""The run's directory on a machine: private, and gone with the agent; runs on the machine.

It is ``~/.cache/autodist/runs/<run>-<random>`` (or below ``$XDG_CACHE_HOME``), or in the directory for temporary files
where the home can't be written. The random part keeps machines that share a home apart. An agent locks its directory,
so that what a killed one has left is known and removed by the next one on the same machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["RunDirectory", "list_files", "make_part", "path_below", "remove_abandoned"]

_LOCK = ".lock"
_PARTS = ".parts"
_RESERVED = (_LOCK, _PARTS)
_LONGEST_NAME = 64
_ATTEMPTS = 10
_TEMPORARY = "autodist-"  # what directories begin with that are not in the home


class RunDirectory:
    """A directory made for one run; locked until all processes that know the lock have ended.

    Raises:
        OSError: It can be made neither in the home nor among the temporary files.
    """

    def __init__(self, run_id: str) -> None:
        self.path = _make(run_id)
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks: what is left there stays
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, _boot_id().encode())

    def remove(self) -> None:
        """Remove it with all that is in it, as far as that is possible, and its parents where no other run is."""
        _remove(self.path)
        with contextlib.suppress(OSError):  # not empty, or removed by another agent
            for parent in (_home() / "autodist" / "runs", _home() / "autodist"):
                parent.rmdir()


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # perhaps because of directories that their owner may not write to
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(path, ignore_errors=True)


def _make(run_id: str) -> Path:
    prefix = "".join(char if char.isalnum() or char in "-_." else "_" for char in run_id).lstrip(".")[:_LONGEST_NAME]
    parent = _home() / "autodist" / "runs"
    for _ in range(_ATTEMPTS):  # an agent that ends may remove the parent between the two
        with contextlib.suppress(OSError):
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{prefix}-"))


def _home() -> Path:
    """Where the user's caches are."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return Path(cache) if os.path.isabs(cache) else Path(os.path.expanduser("~"), ".cache")


def remove_abandoned() -> None:
    """Remove the directories of agents of this user that were killed since this machine was started."""
    with contextlib.suppress(OSError):
        _remove_abandoned_in(_home() / "autodist" / "runs", "")
    with contextlib.suppress(OSError):
        _remove_abandoned_in(Path(tempfile.gettempdir()), _TEMPORARY)


def _remove_abandoned_in(parent: Path, prefix: str) -> None:
    for entry in os.scandir(parent):
        with contextlib.suppress(OSError):
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                _remove_if_abandoned(Path(entry, _LOCK))


def _remove_if_abandoned(lock: Path) -> None:
    if lock.is_symlink() or lock.stat().st_uid != os.getuid():
        return
    with lock.open("rb") as file:
        # A lock of another machine that shares this home may not be seen here, so its directories are left alone.
        if file.read(100).decode(errors="replace") != _boot_id():
            return
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _remove(lock.parent)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def path_below(directory: Path, name: str) -> Path:
    """Return the path of a file below a directory.

    Raises:
        ValueError: The name would lead out of it, or to nothing in it.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts) or parts[0] in _RESERVED:
        raise ValueError(f"`{name}` is not the path of a file below the run's directory")
    return directory.joinpath(*parts)


def make_part(directory: Path) -> tuple[int, str]:
    """Make a file, for what is not whole yet, that is not listed; return its descriptor and path."""
    parts = directory / _PARTS
    parts.mkdir(mode=0o700, exist_ok=True)
    return tempfile.mkstemp(dir=parts)


def list_files(directory: Path) -> Iterator[tuple[str, int]]:
    """Return path and size in bytes of each regular file below a directory."""
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            relative = path.relative_to(directory)
            with contextlib.suppress(OSError):
                if relative.parts[0] not in _RESERVED and path.is_file() and not path.is_symlink():
                    yield relative.as_posix(), path.stat().st_size
