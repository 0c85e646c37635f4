"""A host whose processes get a bounded share of the processors: by the quota of a control group."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from autodist.testing import EmulatedCluster

__all__ = ["bounded_processors"]

_EVERY_S = 0.1
_PERIOD_US = 10_000
"""Short beside a step, so that a host is slow and does not stand still."""
_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def bounded_processors(cluster: EmulatedCluster, host: str, cores: float) -> Iterator[None]:
    """Let all that runs on an emulated host have no more than some cores' time, also what starts later.

    Args:
        cluster: The hosts.
        host: The one to bound.
        cores: Processor time in a second, in seconds.

    Raises:
        OSError: Control groups can't be made here.
    """
    group = _made(cores)
    ends = threading.Event()
    watch = threading.Thread(target=_gather, args=(cluster, host, group, ends))
    watch.start()
    try:
        yield
    finally:
        ends.set()
        watch.join()
        _move_all(group, group.parent)
        group.rmdir()


def _made(cores: float) -> Path:
    quota_us = round(cores * _PERIOD_US)
    if (_GROUPS / "cgroup.controllers").exists():
        group = _GROUPS / f"autodist-{os.getpid()}"
        group.mkdir()
        (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        return group
    group = _GROUPS / "cpu" / f"autodist-{os.getpid()}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    return group


def _gather(cluster: EmulatedCluster, host: str, group: Path, ends: threading.Event) -> None:
    """What processes start later is in their group."""
    known: set[int] = set()
    while not ends.wait(_EVERY_S):
        found = set(cluster.processes(host))
        for pid in found - known:
            _move(pid, group)
        known = found


def _move_all(group: Path, to: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        _move(int(pid), to)


def _move(pid: int, group: Path) -> None:
    with contextlib.suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))
