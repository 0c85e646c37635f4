"""Ends the workers of a launcher that was killed before it could do so.

The kernel's death signal reaches a worker but not the processes that the worker has started. This one outlives the
launcher, notices its end by the end of its own standard input, and ends what is left of the workers' sessions.

It is run as a file by an isolated interpreter and imports the standard library only, so that it starts in no time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_ATTEMPTS_FOR_S = 5.0


def main(run_id: str) -> None:
    """Read a worker's pid per line; an empty line says that the launcher has cleaned up itself."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        if not line.strip():
            return
        sessions.add(int(line))
    give_up_at = time.monotonic() + _ATTEMPTS_FOR_S
    while time.monotonic() < give_up_at:
        left = [pid for pid in members_of_sessions(sessions) if _belongs_to(pid, run_id)]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def members_of_sessions(sessions: set[int]) -> list[int]:
    """All living processes (no zombies) in these sessions; empty where there is no ``/proc``."""
    members = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                state, _, _, session = file.read().rpartition(b")")[2].split()[:4]
                if int(session) in sessions and state not in (b"Z", b"X"):
                    members.append(int(name))
    return members


def _belongs_to(pid: int, run_id: str) -> bool:
    """Whether the process has the run's identity in its environment: with its launcher dead, a pid may be used anew."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return f"AUTODIST_RUN_ID={run_id}".encode() in file.read().split(b"\0")
    return False


if __name__ == "__main__":
    main(sys.argv[1])
