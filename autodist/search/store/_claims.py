"""Which studies of a store are being added to on this machine: two searches that take up the same one would clash."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path


def claim(path: Path, study: int) -> contextlib.AbstractContextManager[object] | None:
    """Claim a study until the returned context ends, or this process does; None if another one has it.

    Linux keeps such names in memory for as long as their process lives, so nothing is left behind, however it ends.
    Processes on other machines, or in other network namespaces, are not seen.

    Args:
        path: The file of the store.
        study: The study's number.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file, claim(Path(file.name), 1):
        ...     claim(Path(file.name), 1) is None
        True
    """
    there = os.stat(path)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        end.bind(f"\0autodist study {there.st_dev} {there.st_ino} {study}")
    except OSError as error:
        end.close()
        # Where there are no such names, nothing is known of others.
        return None if error.errno == errno.EADDRINUSE else contextlib.nullcontext()
    return end
