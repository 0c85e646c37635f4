"""The user's code: the script, and what it imports from its own directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from autodist.errors import UsageError
from autodist.launch._program import Program
from autodist.launch.machines._data_files import ReadFiles

_MOST_FILES = 2000
_MOST_BYTES = 64 * 1024 * 1024
_MOST_DATA_FILES, _MOST_DATA_BYTES = 500, 16 * 1024 * 1024
"""The most data that go along without being named on the command line."""


@dataclass(frozen=True)
class Bundle:
    """A script with the files that go with it to machines that don't have them.

    Attributes:
        root: The directory from which it imports; absolute, without links.
        files: Paths below it, the script first.
    """

    root: Path
    files: tuple[PurePosixPath, ...]

    @classmethod
    def of(cls, program: Program, bring: Sequence[Path] | None = None) -> Bundle:
        """Gather what a script needs.

        Args:
            program: The script, or a module.
            bring: Files and directories below the script's directory that go along, besides the Python modules and
                packages that are next to the script, and small data that it reads there by constant names. For a
                module, it is the directory of its top package.

        Raises:
            UsageError: Something is not there or lies elsewhere.
        """
        root = program.root.resolve()
        first = program.file.relative_to(program.root).as_posix() if program.module else program.file.resolve().name
        found = {*_modules_beside(root), *_named(bring or (), root)}
        if program.module:
            found |= {*_below(root / program.module.partition(".")[0])}
        else:
            found |= _small_data(program, root)
        others = sorted({path.relative_to(root).as_posix() for path in found} - {first})
        return cls(root, tuple(map(PurePosixPath, (first, *others))))

    @property
    def script(self) -> Path:
        """The script on this machine."""
        return self.root / self.files[0]

    @cached_property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(_size(self.root / file) for file in self.files)

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of files by their paths below the root; of the script alone if all are too much to be sent."""
        files = self.files[:1] if self._is_too_much else self.files
        return {str(file): hashlib.sha256((self.root / file).read_bytes()).hexdigest() for file in files}

    @property
    def _is_too_much(self) -> bool:
        return len(self.files) > _MOST_FILES or self.size_bytes > _MOST_BYTES

    def check_size(self) -> None:
        """Check that it is not too much to be sent to other machines.

        Raises:
            UsageError: It is.
        """
        if self._is_too_much:
            raise UsageError(
                f"the script and the files that go with it, below `{self.root}`, are {len(self.files):,} files of "
                f"{self.size_bytes / 1e6:,.0f} MB; at most {_MOST_FILES:,} of {_MOST_BYTES / 1e6:.0f} MB are sent",
                hint="have it under the same path on all hosts (a shared file system, `git clone`), or the script with "
                "what it imports in a directory of its own",
            )


def _modules_beside(root: Path) -> Iterator[Path]:
    """Yield what ``import`` finds in a directory: modules, and packages with the data in them."""
    for path in sorted(root.iterdir()):
        # `os.path` says False of what may not be read, where `Path` raises.
        if path.suffix == ".py" and os.path.isfile(path):
            yield path
        elif os.path.isfile(path / "__init__.py"):
            yield from _below(path)


def _small_data(program: Program, root: Path) -> set[Path]:
    """Data that a script reads at ``Path(__file__).parent``; nothing if they are large: the user decides then."""
    found: set[Path] = set()
    for name in ReadFiles.of(program).next_to_script:
        whole = root / name
        found.update(_below(whole) if whole.is_dir() else [whole])
    if len(found) > _MOST_DATA_FILES or sum(map(_size, found)) > _MOST_DATA_BYTES:
        return set()
    return {path for path in found if os.access(path, os.R_OK)}


def _named(paths: Sequence[Path], root: Path) -> Iterator[Path]:
    mistakes = []
    for path in paths:
        absolute = path.absolute() if path.exists() else root / path
        whole = absolute.parent.resolve() / absolute.name
        if not whole.exists():
            mistakes.append(f"`{path}` of `--bring` does not exist")
        elif not whole.is_relative_to(root) or whole == root:
            mistakes.append(f"`{path}` of `--bring` is not below the script's directory `{root}`")
        else:
            yield from _below(whole) if whole.is_dir() else (whole,)
    if mistakes:
        raise UsageError("\n".join(mistakes), hint="name files and directories next to the script")


def _below(directory: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != "__pycache__" and not name.startswith("."))
        yield from (path for name in files if (path := Path(folder, name)).is_file())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise UsageError(f"`{file}`, which goes with the script, can't be read: {error.strerror}") from error
