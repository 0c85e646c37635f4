"""First acts of a worker's process, before it becomes the worker; run by an isolated interpreter on the machine.

It is sent as a text of its own and imports nothing of the agent. Doing this after a fork instead would be unsafe
alongside the agent's threads, and making directories in the agent itself would let a stuck file system stop it.

Arguments: descriptor of the status pipe, descriptor of the ``/proc`` of outside (-1: none), the parent's process id,
working directory, program and its arguments. The pipe gets lines of JSON: first the process id as the machine numbers
it, then, if it fails, what failed and why. It is closed when the program runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the program that the arguments name."""
    status, outside, parent, directory, *argv = sys.argv[1:]
    pipe = int(status)
    os.set_inheritable(pipe, False)
    _die_with(int(parent))
    _tell(pipe, pid=_own_pid(int(outside)))
    try:
        what = f"the working directory `{directory}`"
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)
        what = f"`{argv[0]}`"
        _restore_signals()
        os.execvp(argv[0], argv)
    except OSError as error:
        _tell(pipe, failed=what, reason=error.strerror or str(error), is_program=what == f"`{argv[0]}`")
        os._exit(127)


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends; without a parent it ends at once."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    except (ImportError, OSError):  # an interpreter without libffi; the agent finds its descendants all the same
        pass
    if os.getppid() != parent:
        os._exit(127)


def _own_pid(outside: int) -> int:
    if outside < 0:
        return os.getpid()
    os.set_inheritable(outside, False)
    return int(os.readlink("self", dir_fd=outside))


def _restore_signals() -> None:
    """Take back what Python changes for itself."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_DFL)


def _tell(pipe: int, **content: Any) -> None:
    os.write(pipe, json.dumps(content).encode() + b"\n")


if __name__ == "__main__":
    main()
