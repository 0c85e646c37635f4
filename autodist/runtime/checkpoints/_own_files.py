"""Which files in a directory of checkpoints are AutoDist's own: no others are ever removed."""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autodist.documents import whole_file

_LOG = logging.getLogger("autodist")
_END_BYTES = 16 << 20


@dataclass(frozen=True)
class OwnFile:
    """A file as it was when it was written.

    Attributes:
        size_bytes: Its size.
        inode: Its number in its file system.
        changed_ns: When its content was last changed.
        digest: Hash of the end of its content; empty if it was not read. For an index that is all of it, with
            checksums of all tensors.
    """

    size_bytes: int
    inode: int
    changed_ns: int
    digest: str

    @classmethod
    def of(cls, path: Path, *, reads: bool = True) -> OwnFile:
        """The properties of a file; its content is read only if ``reads``."""
        found = path.lstat()  # as `is_at` looks: a link is another file than what it leads to
        return cls(found.st_size, found.st_ino, found.st_mtime_ns, _digest(path) if reads else "")

    def is_at(self, path: Path) -> bool:
        """Whether a path has this very file, or a copy of it."""
        try:
            found = path.lstat()
            if (found.st_size, found.st_ino, found.st_mtime_ns) == (self.size_bytes, self.inode, self.changed_ns):
                return True
            return bool(self.digest) and found.st_size == self.size_bytes and _digest(path) == self.digest
        except OSError:  # gone, or not readable
            return False


class CheckpointState(enum.Enum):
    """How far a checkpoint of ours has come."""

    WRITTEN = "written"  # on its way into the directory
    KEPT = "kept"
    REPLACED = "replaced"  # by the one that is written: it leaves when that one is there, else it is kept
    PAST = "past"  # of a training before this one: it leaves when the first checkpoint of the new one is there
    LEAVING = "leaving"  # on its way out


@dataclass
class OwnCheckpoint:
    """A checkpoint that AutoDist has written.

    Attributes:
        steps: Training steps in it.
        standing: How far it has come.
        files: Its files by name.
    """

    steps: int
    standing: CheckpointState
    files: dict[str, OwnFile]


@dataclass
class OwnRecord:
    """AutoDist's own files in a directory; recorded in a file of it.

    Attributes:
        path: Path of the record.
        checkpoints: Ours by name, in the order in which they were written.
        listing: The file ``checkpoint``, if we have written it.
        ignored: Files that were there when training was begun from the start, by name.
        made: Whether the directory was made for them.
    """

    path: Path
    checkpoints: dict[str, OwnCheckpoint] = field(default_factory=dict)
    listing: OwnFile | None = None
    ignored: dict[str, OwnFile] = field(default_factory=dict)
    made: bool = False

    @property
    def directory(self) -> Path:
        """Where the checkpoints are."""
        return self.path.parents[1]

    @classmethod
    def read(cls, path: Path) -> OwnRecord:
        """The record in a file; an empty one if there is none, or none that can be read: then nothing is ours.

        Raises:
            OSError: The file is there and can't be read at the moment.
        """
        try:
            return cls._from_json(path, json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError, AttributeError):
            _LOG.warning(
                "`%s` is damaged: no checkpoint next to it counts as AutoDist's own, and none is removed", path
            )
        return cls(path)

    @classmethod
    def _from_json(cls, path: Path, content: Any) -> OwnRecord:
        checkpoints = {
            _plain(name): OwnCheckpoint(int(of["steps"]), CheckpointState(of["standing"]), _files(of["files"]))
            for name, of in content["checkpoints"].items()
        }
        listing = content["listing"] and OwnFile(**content["listing"])
        return cls(path, checkpoints, listing, _files(content["ignored"]), bool(content["made"]))

    def save(self) -> None:
        """Write it, whole or not at all.

        Raises:
            OSError: The disk is full, for example.
        """
        checkpoints = {
            name: {"steps": of.steps, "standing": of.standing.value, "files": _as_json(of.files)}
            for name, of in self.checkpoints.items()
        }
        listing = self.listing and asdict(self.listing)
        content = {
            "made": self.made,
            "checkpoints": checkpoints,
            "listing": listing,
            "ignored": _as_json(self.ignored),
        }
        with whole_file(self.path, to_disk=True) as draft:
            draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def names(self, *standings: CheckpointState) -> list[str]:
        """Our checkpoints of these standings, in the order in which they were written."""
        return [name for name, of in self.checkpoints.items() if of.standing in standings]

    def mark(self, names: Iterable[str], standing: CheckpointState) -> None:
        """Note how far some have come."""
        for name in names:
            self.checkpoints[name].standing = standing

    def disown(self) -> None:
        """Forget the checkpoints that others have written over."""
        for name, of in list(self.checkpoints.items()):
            path = self.directory / f"{name}.index"
            if path.exists() and not (path.name in of.files and of.files[path.name].is_at(path)):
                del self.checkpoints[name]

    def disown_incomplete(self) -> None:
        """Forget those that lack a file, or have one that is not what we have written."""
        for name, of in list(self.checkpoints.items()):
            if not all(own.is_at(self.directory / file) for file, own in of.files.items()):
                del self.checkpoints[name]

    def remove_files(self, name: str) -> None:
        """Remove a checkpoint of ours, the index first, and forget it.

        If a file of it is not what we have written, all stay and count no more.
        """
        files = self.checkpoints[name].files
        there = {self.directory / file: own for file, own in files.items() if (self.directory / file).exists()}
        if all(own.is_at(path) for path, own in there.items()):
            for path in sorted(there, key=lambda path: path.suffix != ".index"):
                path.unlink()
        else:
            self.ignored |= {path.name: OwnFile.of(path, reads=False) for path in there}
        del self.checkpoints[name]

    def is_ignored(self, path: Path) -> bool:
        """Whether training was begun from the start in spite of this file."""
        ignored = self.ignored.get(path.name)
        return ignored is not None and ignored.is_at(path)


def _files(content: dict[str, Any]) -> dict[str, OwnFile]:
    return {_plain(name): OwnFile(**values) for name, values in content.items()}


def _plain(name: str) -> str:
    """A name in the directory: a record that comes from elsewhere must not lead to files in other places."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"`{name}` is not the name of a file")
    return name


def _as_json(files: dict[str, OwnFile]) -> dict[str, Any]:
    return {name: asdict(file) for name, file in files.items()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
