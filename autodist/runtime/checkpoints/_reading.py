"""Which checkpoints are in a directory, by their own files, and what is in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from autodist.error_text import said_by
from autodist.errors import CheckpointFailed

T = TypeVar("T")

_DATA = re.compile(r"(.+)\.data-\d{5}-of-\d{5}")
_NUMBERED = re.compile(r"(?:.*[-.])?ckpt-\d+(?:-\d+)?")
_TABLE_ENDS_WITH = bytes.fromhex("57fb808b247547db")
_BLOCK_BYTES = 1 << 20
_NO_ARRAY = "Could not allocate ndarray"  # so TensorFlow says that there is no memory for a tensor's value
_POSITION = "position/.ATTRIBUTES/VARIABLE_VALUE"


class DamagedCheckpoint(Exception):
    """The files of a checkpoint can be read, but they are not a whole checkpoint."""


def names_in(directory: Path, own: Collection[str] = ()) -> list[str]:
    """The names of all checkpoints that have files in a directory, whatever has written them.

    Args:
        directory: Where to look; need not be there. Directories are not checkpoints.
        own: Names that are checkpoints for sure.

    Raises:
        OSError: The directory can't be read at the moment.
    """
    names = {path.name for path in directory.iterdir() if not path.is_dir()} if directory.is_dir() else set()
    found = {match[1] for match in map(_DATA.fullmatch, names) if match is not None}
    for name in (name.removesuffix(".index") for name in names if name.endswith(".index")):
        if name in own or _NUMBERED.fullmatch(name) or _is_table(directory / f"{name}.index"):
            found.add(name)
    return sorted(found)


def files_of(directory: Path, name: str) -> list[Path]:
    """The files of a checkpoint, as far as they are there."""
    return [
        path
        for path in directory.iterdir()
        if (path.name == f"{name}.index" or ((match := _DATA.fullmatch(path.name)) is not None and match[1] == name))
        and not path.is_dir()
    ]


def position_in(directory: Path, name: str) -> dict[str, Any] | None:
    """The position in a checkpoint; None if it was not AutoDist that has written it.

    Raises:
        DamagedCheckpoint: It is not a checkpoint, or not all of it.
        CheckpointFailed: It can't be read at the moment.
    """

    def read() -> dict[str, Any] | None:
        reader = _reader(directory, name)
        return _parsed(reader.get_tensor(_POSITION)) if reader.has_tensor(_POSITION) else None

    return _careful(directory, name, read)


def read_all(directory: Path, name: str) -> None:
    """Read all of a checkpoint, so that what a disk has lost is noticed here.

    Raises:
        DamagedCheckpoint: It is not a checkpoint, or not all of it.
        CheckpointFailed: It can't be read at the moment.
    """

    def read() -> None:
        reader = _reader(directory, name)
        for tensor in reader.get_variable_to_shape_map():
            reader.get_tensor(tensor)

    _careful(directory, name, read)


def _careful(directory: Path, name: str, read: Callable[[], T]) -> T:
    """Tell a checkpoint that is damaged from one that can't be read just now, because of the disk or of the memory."""
    try:
        return read()
    except Exception as error:  # TensorFlow raises errors of every kind for a damaged file
        _read_bytes(directory, name)
        first = error
    try:
        return read()  # what was wrong may have passed
    except Exception as error:
        if isinstance(error, OSError) or _is_of_memory(error):
            raise _unreadable(directory / name, error) from error
        raise DamagedCheckpoint(said_by(error)) from first


def _is_of_memory(error: Exception) -> bool:
    kinds = {"ResourceExhaustedError", "MemoryError"}
    return not kinds.isdisjoint(kind.__name__ for kind in type(error).__mro__) or _NO_ARRAY in str(error)


def _read_bytes(directory: Path, name: str) -> None:
    for path in files_of(directory, name):
        try:
            with path.open("rb") as file:
                while file.read(_BLOCK_BYTES):
                    pass
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> CheckpointFailed:
    return CheckpointFailed(
        f"the checkpoint `{path}` can't be read at the moment: {said_by(error)}",
        hint="nothing was changed: check the disk, the file's permissions and the free memory, and start again",
    )


def _reader(directory: Path, name: str) -> Any:
    import tensorflow as tf

    return tf.train.load_checkpoint(str(directory / name))


def _parsed(content: Any) -> dict[str, Any] | None:
    """A position; others may have variables of that name."""
    if not isinstance(content, bytes):
        return None
    try:
        position = json.loads(content)
    except ValueError:
        return None
    return position if isinstance(position, dict) and isinstance(position.get("steps"), int) else None


def _is_table(path: Path) -> bool:
    """Whether there is a file that ends as an index of TensorFlow does; other programs have names like that too."""
    if not path.is_file():  # a pipe would never end, a link may lead nowhere
        return False
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - len(_TABLE_ENDS_WITH), 0))
            return file.read() == _TABLE_ENDS_WITH
    except OSError:
        return False
