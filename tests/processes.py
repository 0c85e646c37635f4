"""Processes that a test started, however deep, found by a mark in their environment."""

from __future__ import annotations

import os
import time

import psutil

MARK = "AUTODIST_TESTS_MARK"


def marked(mark: str) -> list[str]:
    """The living processes that carry the mark, this one aside."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(MARK) == mark
            ):
                found.append(f"{process.pid} {process.cmdline()}")
        except psutil.Error:
            continue
    return found


def left(mark: str) -> list[str]:
    """The same, after a moment in which they may still end."""
    deadline = time.monotonic() + 3.0
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
