"""When garbage is collected."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def garbage_waits() -> Iterator[None]:
    """Keep garbage collection off inside this context, or inside the function that this decorates.

    Describing and rewriting a step make many objects and no cycles. Each full collection that this sets off looks in
    vain through all that TensorFlow's tracing has left behind, which on a large graph takes as long as a kernel.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
