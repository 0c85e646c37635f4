"""Files that workers other than the chief would write as well: they go into a directory that is removed."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autodist.graph import Patches


class FilesAside:
    """A directory in which a worker finds the files again that it has written, where the chief writes the real ones.

    What is caught is what Python itself does: ``open`` (and with it ``Path.write_text``, ``np.save``, …), and renaming,
    removing and making directories. Files that libraries write by their own means are not.

    Args:
        rank: This worker; the chief's files are the real ones.
        scratch: Where the directory is made; None for where temporary files are.
    """

    def __init__(self, rank: int, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self.is_chief = rank == 0
        self._rank = rank
        self._directory: Path | None = None
        self._said: set[str] = set()

    def remove(self) -> None:
        """Remove the directory."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @contextlib.contextmanager
    def instead(self, label: str) -> Iterator[None]:
        """Redirect the files that this thread writes inside.

        Args:
            label: What writes them, for the first message.
        """
        caught = _Caught(self, label, threading.get_ident())
        with Patches() as patches:
            for module in (builtins, io):
                patches.replace(module, "open", caught.open)
            for name in ("rename", "replace"):
                patches.replace(os, name, caught.moved)
            for name in ("remove", "unlink", "rmdir"):
                patches.replace(os, name, caught.removed)
            patches.replace(os, "mkdir", caught.made)
            patches.replace(shutil, "rmtree", caught.removed)
            yield

    def place(self, path: Any) -> Path:
        """Where a file is instead."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="autodist-aside-", dir=self._scratch))
        return self._directory / os.path.abspath(os.fsdecode(path)).lstrip(os.sep)

    def say(self, label: str) -> None:
        """Say, once per label, that only the chief writes these files."""
        if label not in self._said:
            self._said.add(label)
            sys.stderr.write(f"the callback `{label}` writes no files on worker {self._rank}: the chief writes them\n")


def _is_relative(arguments: dict[str, Any]) -> bool:
    """Whether paths are relative to an open directory."""
    return any(name.endswith("dir_fd") and value is not None for name, value in arguments.items())


class _Caught:
    """Replacements of functions that change files, in one thread."""

    def __init__(self, files: FilesAside, label: str, thread: int) -> None:
        self._files = files
        self._label = label
        self._thread = thread
        self._is_at_it = False

    def _is_meant(self, path: Any) -> bool:
        if self._is_at_it or threading.get_ident() != self._thread or not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)  # devices are no files

    @contextlib.contextmanager
    def _place(self, path: Any) -> Iterator[Path]:
        """The path to use instead of a file's own, inside."""
        self._is_at_it = True
        try:
            yield self._files.place(path)
        finally:
            self._is_at_it = False

    def open(self, original: Any) -> Any:
        """Open a file aside if it is written, or read after it was written there."""

        @functools.wraps(original)
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not self._is_meant(file):
                return original(file, mode, *args, **kwargs)
            with self._place(file) as place:
                if not set(mode) & set("wax+"):
                    return original(place if place.exists() else file, mode, *args, **kwargs)
                self._files.say(self._label)
                place.parent.mkdir(parents=True, exist_ok=True)
                if "r" in mode and not place.exists() and os.path.exists(file):
                    shutil.copyfile(file, place)
                return original(place, mode, *args, **kwargs)

        return opened

    def moved(self, original: Any) -> Any:
        """Move a file that is aside there; the chief moves what is not."""

        @functools.wraps(original)
        def move(source: Any, target: Any, **kwargs: Any) -> None:
            if _is_relative(kwargs) or not self._is_meant(source):
                original(source, target, **kwargs)
                return
            with self._place(source) as place:
                if place.exists():
                    moved = self._files.place(target)
                    moved.parent.mkdir(parents=True, exist_ok=True)
                    original(place, moved)

        return move

    def removed(self, original: Any) -> Any:
        """Remove a file that is aside there; the chief removes what is not."""

        @functools.wraps(original)
        def remove(path: Any, *args: Any, **kwargs: Any) -> None:
            if _is_relative(kwargs) or not self._is_meant(path):
                original(path, *args, **kwargs)
                return
            with self._place(path) as place:
                if place.exists():
                    original(place, *args, **kwargs)

        return remove

    def made(self, original: Any) -> Any:
        """Make a directory aside; the real one may exist already, or the chief may be about to make it."""

        @functools.wraps(original)
        def make(path: Any, *args: Any, **kwargs: Any) -> None:
            if _is_relative(kwargs) or not self._is_meant(path):
                original(path, *args, **kwargs)
                return
            with self._place(path) as place:
                place.mkdir(parents=True, exist_ok=True)

        return make
