"""Whether a file is on a disk that several machines use: their processes share no memory for its locks."""

from __future__ import annotations

import os
from pathlib import Path

_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "afs"}
)
_MOUNTS = Path("/proc/self/mountinfo")


def is_on_shared_disk(path: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether the directory of a file is a network's; programs in user space that bring one (``fuse.``) count as such.

    Example:
        >>> is_on_shared_disk(Path("/dev/shm/trials.db"))
        False
    """
    place = os.path.realpath(path.parent)
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # no Linux
        return False
    found, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        is_above = place == point or place.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(found):
            found, kind = point, after.split()[0]
    return kind in _SHARED or kind.startswith("fuse.")
