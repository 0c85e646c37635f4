"""A worker that does not outlive its launcher, however the launcher ends (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal

from autodist.errors import LaunchError

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel end this process by SIGKILL when its parent ends.

    Args:
        parent_pid: The expected parent; 0 for "don't care".

    Raises:
        LaunchError: The parent had ended before this call.
    """
    if hasattr(signal, "SIGKILL") and os.path.isdir("/proc"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Without this check a launcher that dies while Python starts up would never be noticed.
    if parent_pid and os.getppid() != parent_pid:
        raise LaunchError(f"the launcher (pid {parent_pid}) had ended before this worker started")
