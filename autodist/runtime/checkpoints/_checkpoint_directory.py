"""The files of checkpoints: written whole or not at all; of those that AutoDist has written the newest are kept."""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autodist.coordination import own_writing
from autodist.documents import to_disk
from autodist.error_text import said_by
from autodist.errors import CheckpointFailed, UsageError
from autodist.runtime.checkpoints._listing import LISTING, list_checkpoints, listed
from autodist.runtime.checkpoints._lock import DirectoryLock
from autodist.runtime.checkpoints._own_files import CheckpointState, OwnCheckpoint, OwnFile, OwnRecord
from autodist.runtime.checkpoints._reading import DamagedCheckpoint, files_of, names_in, position_in, read_all

_LOG = logging.getLogger("autodist")
_OWN = ".autodist"
_LOCK_S, _RESTART_S = 1.0, 30.0
_OF_KERAS = ("latest.weights.h5", "training_metadata.json")
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG})
_SPACE = "name a directory on a disk with space, in which you may write"
_ELSEWHERE = "name another directory; or start over next to what is there, by `fresh=True`, which removes none of it"


@dataclass(frozen=True)
class FoundCheckpoint:
    """A checkpoint that can be read.

    Attributes:
        path: Path of its files, without their endings.
        position: Where training was; None if others have written it.
    """

    path: str
    position: dict[str, Any] | None


class CheckpointFiles:
    """Checkpoints in a directory, named as ``tf.train.CheckpointManager`` names them; used by the chief alone.

    A checkpoint is written next to the others, forced to the disk, and renamed: whenever the process or the machine
    dies, the directory holds the checkpoints that it held before, or one more. What is there is found by its own files.
    A record lists what AutoDist has written, and nothing else is ever removed. While the process lives, no other
    gets into the directory.

    Args:
        directory: Made if missing.
        keep: How many checkpoints to keep.
        run_id: The run of this process; empty outside of ``autodist run``.
        attempt: How often the run was started before: then its processes may still be about to end.
    """

    def __init__(self, directory: Path, keep: int, run_id: str = "", attempt: int = 0) -> None:
        self._directory = directory
        self._keep = keep
        self._run_id = run_id
        self._attempt = attempt
        self._own = directory / _OWN
        self._unfinished = self._own / "unfinished"
        self._lock: DirectoryLock | None = None
        self._record = OwnRecord(self._own / "record.json")
        self._is_unsaved = False

    def find(self, *, fresh: bool = False) -> FoundCheckpoint | None:
        """The newest checkpoint that can be read; None if there is none at all. Damaged ones are moved aside.

        AutoDist's own come before those that others have written.

        Args:
            fresh: Whether to begin from the start, whatever is there. A restart goes on from what its run has written.

        Raises:
            UsageError: Something is there, and nothing can be read; or another process is there.
            CheckpointFailed: The disk does not do what it is asked at the moment.
        """
        with _in_plain_words(f"a checkpoint can't be written into `{self._directory}`", _SPACE):
            self._open()
        what = f"the directory `{self._directory}` can't be read or changed at the moment"
        with _in_plain_words(what, "see to the disk and to the rights of the directory, and start again"):
            return self._find(fresh)

    def _find(self, fresh: bool) -> FoundCheckpoint | None:
        if fresh and self._attempt == 0:
            self._begin_anew()
            return None
        found: dict[str, dict[str, Any] | None] = {}
        damaged: dict[str, str] = {}
        for name in self._candidates(fresh):
            with _noting(damaged, name):
                found[name] = position_in(self._directory, name)
        for name in sorted(found, key=lambda name: self._age(name, found[name]), reverse=True):
            with _noting(damaged, name):
                read_all(self._directory, name)
                self._put_aside(damaged)
                return FoundCheckpoint(str(self._directory / name), found[name])
        if not fresh:
            self._refuse(damaged)
        return None

    def write(self, root: Any, steps: int) -> None:
        """Write a checkpoint, and remove those of ours that are too many then.

        Raises:
            UsageError: Another process is there, or this one may not write there.
            OSError: For example, the disk is full; earlier checkpoints remain, also after TensorFlow's errors.
        """
        with _in_plain_words(f"a checkpoint can't be written into `{self._directory}`", _SPACE, _NOT_ALLOWED):
            self._open()
        name = self._free_name(steps)
        try:
            self._write(root, name, steps)
            self._settle()
            self._list()
        finally:
            self._sweep()

    def remove(self) -> None:
        """Remove all checkpoints of ours, and the directory if it was made for them and nothing else is in it.

        Raises:
            UsageError: Another process is there.
            OSError: The disk can't.
        """
        if not self._directory.is_dir():
            return
        self._open()
        self._record.mark(self._record.checkpoints, CheckpointState.LEAVING)
        self._list()
        self._record.save()
        self._sweep()
        self._record.path.unlink(missing_ok=True)
        assert self._lock is not None, "the directory is open"
        self._lock.give_back()
        for directory in (self._own, self._directory) if self._record.made else (self._own,):
            with contextlib.suppress(OSError):
                directory.rmdir()

    # --- opening the directory

    def _open(self) -> None:
        """Get the directory for this process, see what of it is ours, and finish what one before has begun."""
        is_new = not self._directory.exists()
        if self._own.is_symlink():
            raise UsageError(
                f"`{self._own}` is a link: what AutoDist writes and removes there would be files of another place",
                hint="remove the link, or name another directory",
            )
        if self._lock is None or not self._lock.is_held:
            self._own.mkdir(parents=True, exist_ok=True)
            wait_s = _RESTART_S if self._attempt else _LOCK_S
            self._lock = DirectoryLock.take(self._own / "lock", self._directory, self._run_id, wait_s)
            self._lock.hand_to(self)
        elif not self._lock.is_with(self):
            raise UsageError(
                f"two parts of the script use the directory of checkpoints `{self._directory}`",
                hint="give each `ad.checkpoint` and `BackupAndRestore` a directory of its own",
            )
        self._record = OwnRecord.read(self._record.path)
        if is_new:
            self._record.made = True
            with contextlib.suppress(OSError):  # then it is not removed at the end
                self._record.save()
        self._record.disown()
        self._sweep()

    def _sweep(self) -> None:
        """Remove the checkpoints that are marked as leaving."""
        shutil.rmtree(self._unfinished, ignore_errors=True)
        self._settle()
        leaving = self._record.names(CheckpointState.LEAVING)
        with contextlib.suppress(OSError):  # then the next one does it
            for name in leaving:
                self._record.remove_files(name)
            if leaving or self._is_unsaved:
                self._record.save()
                self._is_unsaved = False

    def _settle(self) -> None:
        """Mark the checkpoint that was being written as kept if it is complete; those that it replaces then leave."""
        begun = self._record.names(CheckpointState.WRITTEN)
        here = [name for name in begun if self._is_there(name)]
        replaced = self._record.names(CheckpointState.REPLACED)
        self._record.mark([name for name in begun if name not in here], CheckpointState.LEAVING)
        if here:
            self._record.mark([*replaced, *self._record.names(CheckpointState.PAST)], CheckpointState.LEAVING)
        else:
            self._record.mark(replaced, CheckpointState.KEPT)
        self._record.mark(here, CheckpointState.KEPT)
        self._is_unsaved |= bool(begun or replaced)

    # --- finding checkpoints

    def _candidates(self, fresh: bool) -> list[str]:
        names = names_in(self._directory, self._record.checkpoints)
        past = self._record.names(CheckpointState.PAST) if fresh else []
        return [name for name in names if name not in past and not self._is_ignored(name)]

    def _is_ignored(self, name: str) -> bool:
        return all(self._record.is_ignored(path) for path in files_of(self._directory, name))

    def _age(self, name: str, position: dict[str, Any] | None) -> tuple[bool, int, float]:
        number = name.rpartition("-")[2]
        steps = position["steps"] if position is not None else int(number) if number.isdigit() else 0
        return position is not None, steps, (self._directory / f"{name}.index").stat().st_mtime

    def _refuse(self, damaged: Mapping[str, str]) -> None:
        """Stop if something is there, since nothing of it can be read."""
        there = [f"`{name}`: {reason}" for name, reason in damaged.items()]
        there += [f"`{n}`: listed in `{LISTING}`, and not there" for n in self._missing() if n not in damaged]
        there += [
            f"`{name}`: of `keras.callbacks.BackupAndRestore`"
            for name in _OF_KERAS
            if (self._directory / name).exists() and not self._record.is_ignored(self._directory / name)
        ]
        if there:
            lines = "".join(f"\n  {line}" for line in there)
            raise UsageError(f"no checkpoint in `{self._directory}` can be read:{lines}", hint=_ELSEWHERE)

    def _missing(self) -> list[str]:
        """Files that the listing names, and that aren't there."""
        is_ignored = self._record.is_ignored(self._directory / LISTING)
        return [] if is_ignored else [n for n in listed(self._directory) if not self._is_there(n)]

    def _is_there(self, name: str) -> bool:
        return (self._directory / f"{name}.index").exists()

    def _put_aside(self, damaged: Mapping[str, str]) -> None:
        """Move what can't be read out of the way of what will be written."""
        if not damaged:
            return
        place = Path(tempfile.mkdtemp(prefix=f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-", dir=self._directory))
        for name, reason in damaged.items():
            _LOG.warning("the checkpoint `%s` can't be read, and was moved to `%s`: %s", name, place, reason)
            for path in files_of(self._directory, name):
                path.rename(place / path.name)
            self._record.checkpoints.pop(name, None)
        self._list()
        self._record.save()

    def _begin_anew(self) -> None:
        """Leave all files where they are, and ignore them from now on."""
        self._record.disown_incomplete()
        self._record.mark(self._record.checkpoints, CheckpointState.PAST)
        own = {file for of in self._record.checkpoints.values() for file in of.files}
        there = [path for name in names_in(self._directory) for path in files_of(self._directory, name)]
        there += [path for name in (LISTING, *_OF_KERAS) if (path := self._directory / name).is_file()]
        self._record.ignored = {path.name: OwnFile.of(path, reads=False) for path in there if path.name not in own}
        self._record.save()

    # --- writing

    def _free_name(self, steps: int) -> str:
        """A name that no file has, so that writing never takes anything away."""
        taken = {path.name.partition(".")[0] for path in self._directory.iterdir()} | set(self._record.checkpoints)
        names = (f"ckpt-{steps}" if k == 1 else f"ckpt-{steps}-{k}" for k in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _older(self, steps: int) -> list[str]:
        """Those of ours with fewer steps; the others are of a past that a restart has given up."""
        kept = self._record.names(CheckpointState.KEPT)
        return [name for name in kept if self._record.checkpoints[name].steps < steps and self._is_there(name)]

    def _write(self, root: Any, name: str, steps: int) -> None:
        self._unfinished.mkdir()
        with own_writing():
            root.write(str(self._unfinished / name))
        # The index last: with it the checkpoint is there.
        files = sorted(self._unfinished.iterdir(), key=lambda path: path.suffix == ".index")
        for path in files:
            to_disk(path)
        own = {path.name: OwnFile.of(path) for path in files}
        kept = [*self._older(steps), name][-self._keep :]
        replaced = [n for n in self._record.names(CheckpointState.KEPT) if n not in kept]
        self._record.mark(replaced, CheckpointState.REPLACED)
        self._record.checkpoints[name] = OwnCheckpoint(steps, CheckpointState.WRITTEN, own)
        self._record.save()
        for path in files:
            path.rename(self._directory / path.name)
        to_disk(self._directory)

    def _list(self) -> None:
        record = self._record
        own = [name for name in record.names(CheckpointState.KEPT) if self._is_there(name)]
        record.listing = list_checkpoints(self._directory, own, record.checkpoints, record.listing)


@contextlib.contextmanager
def _in_plain_words(what: str, hint: str, only: frozenset[int] | None = None) -> Iterator[None]:
    """Turn errors of the system inside into errors of AutoDist.

    Args:
        what: The beginning of the message: what could not be done.
        hint: What to do then.
        only: The numbers of the errors that are turned; None for all.
    """
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        kind = UsageError if error.errno in _NOT_ALLOWED else CheckpointFailed
        raise kind(f"{what}: {said_by(error)}", hint=hint) from error


@contextlib.contextmanager
def _noting(damaged: dict[str, str], name: str) -> Iterator[None]:
    """Note what is damaged, and go on."""
    try:
        yield
    except DamagedCheckpoint as error:
        damaged[name] = str(error)
