"""Files and the disk: content survives a crash of the machine only once it was forced there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_NOT_THERE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


def to_disk(path: str | os.PathLike[str]) -> None:
    """Have the kernel write a file or a directory's entries now.

    Raises:
        OSError: The disk is full or broken; a file system without such a request is not an error.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if os.path.isdir(path):
            return  # a directory that may be written to, but not read
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
    finally:
        os.close(descriptor)


def tree_to_disk(root: Path) -> None:
    """Have the kernel write all files and directories below one now, and itself last.

    Raises:
        OSError: As in :func:`to_disk`.
    """
    for path in _below(root):
        to_disk(path)


def _below(root: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(root, topdown=False):
        here = Path(directory)
        yield from (here / name for name in names if (here / name).is_file())
        yield here
