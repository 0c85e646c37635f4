"""Which communicators work on this machine."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Collection
from pathlib import Path

from autodist.strategies._strategy import Communicator, GraphCommunicator
from autodist.transport import is_built

__all__ = ["carrier_of_servers", "fastest_first", "installed_communicators"]


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
    return fastest_first(has_tcp=is_built(), has_horovod=built)


def fastest_first(*, has_tcp: bool, has_horovod: bool) -> tuple[Communicator, ...]:
    """Return the communicators of a machine, the fastest first, as ``docs/performance.md`` has measured on CPUs.

    Example:
        >>> fastest_first(has_tcp=True, has_horovod=False)
        ('tcp', 'collective')

    """
    has: dict[Communicator, bool] = {"tcp": has_tcp, "horovod": has_horovod, "collective": True}
    return tuple(name for name, is_there in has.items() if is_there)


def carrier_of_servers(installed: Collection[str]) -> GraphCommunicator:
    """Return what carries what servers get and give where nobody has said it.

    Example:
        >>> carrier_of_servers(["tcp", "collective"]), carrier_of_servers(["horovod", "collective"])
        ('tcp', 'queue')

    """
    return "tcp" if "tcp" in installed else "queue"
