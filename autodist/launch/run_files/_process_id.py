"""Which process is meant, on which machine, since which boot: numbers alone are given to others later."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from autodist.report import ProcessId

_ZOMBIES = (b"Z", b"X")


def this_process() -> ProcessId:
    """Return what identifies the calling process."""
    pid = os.getpid()
    found = _state_and_start(pid)
    return ProcessId(socket.gethostname(), pid, found[1] if found else None, _boot_id(), _namespace())


def is_here(process: ProcessId) -> bool:
    """Whether a process' number can be judged here: on this machine, in this namespace or before the last boot."""
    if process.host != socket.gethostname():
        return False
    return process.boot_id != _boot_id() or process.namespace == _namespace()


def is_alive(process: ProcessId) -> bool | None:
    """Whether the process still runs; None if it can't be seen from here."""
    if not is_here(process):
        return None
    if process.boot_id != _boot_id():
        return False
    if process.start_ticks is None:
        return _exists(process.pid)
    found = _state_and_start(process.pid)
    return found is not None and found[0] not in _ZOMBIES and found[1] == process.start_ticks


def _state_and_start(pid: int) -> tuple[bytes, int] | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The second field is the program's name in parentheses, which may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0], int(fields[19])
    return None


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _namespace() -> str:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
