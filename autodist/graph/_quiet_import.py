"""Imports TensorFlow without its messages about the CPU, which are noise in a process that only reads graphs."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from autodist.chatter import is_chatter
from autodist.installation import check_tensorflow

_LEVEL, _WITHOUT_NOTES = "TF_CPP_MIN_LOG_LEVEL", "2"


@contextlib.contextmanager
def without_chatter() -> Iterator[None]:
    """Import TensorFlow inside: whatever else is written to standard error meanwhile comes afterwards.

    TensorFlow then leaves out its notes later as well, such as those of its first session, unless
    ``TF_CPP_MIN_LOG_LEVEL`` says otherwise.

    Raises:
        NotInstalled: There is no TensorFlow, or not the version that AutoDist works with.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    check_tensorflow()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as stack:
        original = os.dup(2)
        stack.callback(os.close, original)
        stack.callback(_write_back, held, original)
        stack.callback(os.dup2, original, 2)
        os.dup2(held.fileno(), 2)
        if _LEVEL not in os.environ:
            os.environ[_LEVEL] = _WITHOUT_NOTES
            stack.callback(os.environ.pop, _LEVEL, None)  # read by now; processes that are started don't get it
        yield


def _write_back(held: IO[bytes], descriptor: int) -> None:
    sys.stderr.flush()
    held.seek(0)
    for line in held:
        if not is_chatter(line.decode(errors="replace")):
            os.write(descriptor, line)
