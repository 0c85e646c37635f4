"""Can workers write, and is there room?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Disk, Examination
from autodist.doctor._finding import Finding, Status

_NAMES = {"directory": "the working directory", "tmp": "the directory for temporary files", "shm": "shared memory"}
_LITTLE_BYTES = {"directory": 2e9, "tmp": 5e8, "shm": 6.4e7}
_FULL_BYTES = 2e7
_REMEDIES = {
    "directory": "make room, or name another `directory` of the host in the spec",
    "tmp": "make room, or set `TMPDIR` of the host by `env` in the spec",
    "shm": "enlarge it: `mount -o remount,size=1g /dev/shm`, for a container `--shm-size=1g`",
}


def check_disk(examination: Examination) -> Iterator[Finding]:
    """Yield each place that workers write to."""
    for visit, facts in examination.known:
        for kind, disk in facts.disks.items():
            yield _judge(visit.name, kind, disk)


def _judge(host: str, kind: str, disk: Disk) -> Finding:
    free = f"{disk.free_bytes / 1e9:.3g} GB" if disk.free_bytes >= 1e9 else f"{disk.free_bytes / 1e6:.3g} MB"
    where = f"{_NAMES[kind]} {disk.path}"
    # Without shared memory nothing stops, only some data exchanges are slower.
    worst = Status.WARN if kind == "shm" else Status.FAIL
    if not disk.is_writable:
        return Finding(host, "disk", worst, f"{where} can't be written to", _REMEDIES[kind])
    if disk.free_bytes < _LITTLE_BYTES[kind]:
        status = worst if disk.free_bytes < _FULL_BYTES else Status.WARN
        return Finding(host, "disk", status, f"{where} has {free} free", _REMEDIES[kind])
    return Finding(host, "disk", Status.OK, f"{where} has {free} free")
