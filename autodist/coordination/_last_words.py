"""The last lines of a worker that ends with an error: the launcher shows them once, not as they come from each worker.

The lines are marked, since only the launcher knows which worker has failed first. Logs have them without the mark.
"""

from __future__ import annotations

import sys

from autodist.coordination._worker import current_worker

LAST_WORDS_MARK = "\x1fend\x1f"
"""Precedes every line of standard error about the worker's own end; no text contains it."""


def say_last(text: str) -> None:
    """Write why this process ends to standard error."""
    mark = LAST_WORDS_MARK if current_worker().environment.launcher_pid else ""
    sys.stderr.write("".join(f"{mark}{line}\n" for line in text.rstrip("\n").split("\n")))
    sys.stderr.flush()
