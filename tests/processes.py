"""Processes that a test started, however deep, found by a mark in their environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

MARK = "AUTODIST_TESTS_MARK"


def marked(mark: str) -> list[str]:
    """The living processes that carry the mark, this one aside, and where in the kernel they wait."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(MARK) == mark
            ):
                waits_in = text_of(Path(f"/proc/{process.pid}/wchan"))
                found.append(f"{process.pid} {process.status()} {waits_in} {process.cmdline()}")
        except psutil.Error:
            continue
    return found


def text_of(path: Path) -> str:
    """A file of `/proc`; nothing of a process that has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def left(mark: str) -> list[str]:
    """The same, after a moment in which they may still end."""
    deadline = time.monotonic() + 30.0
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
