"""Which communicators work on this machine."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from autodist.strategies._strategy import Communicator, Order
from autodist.transport import is_built

__all__ = ["ORDERS", "installed_communicators"]

ORDERS: dict[Communicator, tuple[Order, ...]] = {
    "tcp": ("ring", "hierarchical"),
    "horovod": ("ring", "hierarchical"),
    "collective": ("ring", "hierarchical"),
}
"""Over which structures a communicator reduces; the replicas of a host are summed on it before in any case."""


@functools.cache
def installed_communicators() -> tuple[Communicator, ...]:
    """Return the communicators that work here, the fastest first; ``collective`` always does, it is TensorFlow's own.

    Looks for AutoDist's library and for Horovod's without loading them: that takes a second and starts threads.

    Example:
        >>> "collective" in installed_communicators()
        True

    """
    found = importlib.util.find_spec("horovod")
    folders = (found.submodule_search_locations or ()) if found else ()
    built = any(True for folder in folders for _ in Path(folder, "tensorflow").glob("mpi_lib*.so"))
    own: tuple[Communicator, ...] = ("tcp",) if is_built() else ()
    return (*own, "horovod", "collective") if built else (*own, "collective")
