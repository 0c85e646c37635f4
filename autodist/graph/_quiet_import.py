"""TensorFlow's account of the CPU, in a process that only reads graphs, is no news for anyone."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

__all__ = ["without_chatter"]

# What its C++ side writes while it is imported, before any level of logging counts.
_CHATTER = re.compile(
    rb"I0000 00:00:\d|WARNING: All log messages before absl::InitializeLog|To enable the following instructions: "
)


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Import TensorFlow inside: whatever else is written to standard error meanwhile comes afterwards."""
    if "tensorflow" in sys.modules:
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as stack:
        original = os.dup(2)
        stack.callback(os.close, original)
        stack.callback(_write_back, held, original)
        stack.callback(os.dup2, original, 2)
        os.dup2(held.fileno(), 2)
        yield


def _write_back(held: IO[bytes], descriptor: int) -> None:
    sys.stderr.flush()
    held.seek(0)
    for line in held:
        if not _CHATTER.match(line):
            os.write(descriptor, line)
