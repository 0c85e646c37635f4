"""Processes that descend from this one: which they are, and how they are ended; runs on the machine.

They are found by their parents, up to this process, which must be a subreaper: then what loses its parent falls to it
instead of leaving the tree. Sessions and process groups do not matter. Nothing else is ever sent a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass

__all__ = ["KILL_S", "Ending", "SeenProcess", "become_subreaper", "children_ended", "descendants", "send_signal"]

KILL_S = 5.0  # how long KILL is tried; what is left then hangs in the kernel
_INTERVAL_S = 0.05
_FIRST_INTERVAL_S = 0.005
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper(name: str) -> None:
    """Have descendants that lose their parents fall to this process, which gets a name for process lists.

    Raises:
        OSError: The kernel can't do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, name.encode()[:15])
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1)) != 0:
        raise OSError(ctypes.get_errno(), "this process can't become a subreaper")


@dataclass(frozen=True)
class SeenProcess:
    """A living process, as seen at one moment.

    Attributes:
        pid: Its number.
        parent: Its parent's number.
        session: The number of its session.
        born: When it started, in the kernel's ticks: tells it from a later process of the same number.
    """

    pid: int
    parent: int
    session: int
    born: int


def descendants(root: int) -> list[SeenProcess]:
    """Return all living processes below ``root``, without itself."""
    below: dict[int, list[tuple[SeenProcess, bool]]] = {}
    for name in os.listdir("/proc"):
        found = _read(name) if name.isdigit() else None
        if found is not None:
            below.setdefault(found[0].parent, []).append(found)
    alive: list[SeenProcess] = []
    parents = [root]
    while parents:
        for process, is_alive in below.pop(parents.pop(), ()):
            parents.append(process.pid)
            if is_alive:
                alive.append(process)
    return alive


def _read(name: str) -> tuple[SeenProcess, bool] | None:
    """Return a process, and whether it is alive; a zombie is, as long as it has threads."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None  # it has ended meanwhile
    if len(fields) < 20:
        return None
    state, parent, session, threads, born = (fields[index] for index in (0, 1, 3, 17, 19))
    is_alive = state not in (b"Z", b"X") or int(threads) > 1
    return SeenProcess(int(name), int(parent), int(session), int(born)), is_alive


def send_signal(process: SeenProcess, signum: int) -> None:
    """Send a signal to exactly this process, if it still is there and may be sent one."""
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, signum)
            return
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:  # an old kernel, or it has ended
            if _is_still(process):
                os.kill(process.pid, signum)
            return
        try:
            # Only now the number can't be given to another process any more.
            if _is_still(process):
                signal.pidfd_send_signal(handle, signum)
        finally:
            os.close(handle)


def _is_still(process: SeenProcess) -> bool:
    found = _read(str(process.pid))
    return found is not None and found[0].born == process.born


class Ending:
    """The end of all processes below one: TERM to each, and KILL to what is left after the grace time.

    Args:
        root: The process whose descendants end.
        grace_s: Time between the two; 0 is KILL at once.

    Example:
        >>> ending = Ending(os.getpid(), grace_s=5.0)
        >>> while (pause_s := ending.step()) is not None:
        ...     time.sleep(pause_s)
        >>> ending.left
        ()
    """

    def __init__(self, root: int, grace_s: float) -> None:
        self._root = root
        self._kill_at_s = time.monotonic() + grace_s if grace_s > 0 else 0.0
        self._give_up_at_s: float | None = None
        self._asked: set[tuple[int, int]] = set()
        self._pause_s = _FIRST_INTERVAL_S
        self.left: tuple[int, ...] = ()

    def hurry(self) -> None:
        """Cut the grace time short."""
        self._kill_at_s = 0.0

    def step(self) -> float | None:
        """Look at what is left, send it what is due, and return when to look again in seconds; None when done."""
        now_s = time.monotonic()
        alive = descendants(self._root)
        is_killing = now_s >= self._kill_at_s
        if is_killing and self._give_up_at_s is None:
            self._give_up_at_s = now_s + KILL_S
        self.left = tuple(process.pid for process in alive)
        if not alive or (self._give_up_at_s is not None and now_s > self._give_up_at_s):
            return None
        for process in alive:
            self._send(process, is_killing)
        self._pause_s = min(2 * self._pause_s, _INTERVAL_S)
        return self._pause_s

    def _send(self, process: SeenProcess, is_killing: bool) -> None:
        if is_killing:
            send_signal(process, signal.SIGKILL)
        elif (process.pid, process.born) not in self._asked:
            self._asked.add((process.pid, process.born))
            send_signal(process, signal.SIGTERM)


def children_ended(known: set[int]) -> list[int]:
    """Return the zombies among this process' children that are not in ``known``."""
    me, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in known:
            process = _read(name)
            if process is not None and process[0].parent == me and not process[1]:
                found.append(process[0].pid)
    return found
