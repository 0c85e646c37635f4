"""The library: whether it is there, and what Python asks of it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

from autodist.errors import LaunchError

__all__ = ["connect", "disconnect", "is_built", "register"]

_NAME = "_collectives*.so"


def is_built() -> bool:
    """Return whether the library was built when AutoDist was installed, which needs a compiler of C++.

    Looks for its file, and loads nothing.
    """
    return _path() is not None


def register() -> None:
    """Make the library's operations, ``AutodistAllReduce`` and ``AutodistAllGather``, known to TensorFlow.

    Raises:
        LaunchError: The library is not there, or this TensorFlow has not the functions that it needs.

    """
    import tensorflow  # noqa: F401  its library must be loaded

    if not _library().autodist_register():
        raise LaunchError(
            "AutoDist's library for collectives does not work with this TensorFlow",
            hint="choose another communicator, as in `--strategy \"AllReduce(communicator='collective')\"`",
        )


def connect(rank: int, sockets: Sequence[int], shares: Sequence[float], coding: Sequence[bool]) -> None:
    """Open this process' side of the connections; those that were open before are closed.

    Args:
        rank: This worker.
        sockets: By rank, the descriptor of a connected socket, which the library takes over; -1 for the own one.
        shares: By rank, which part of a large tensor is summed there; together 1, and the same on all workers.
        coding: By rank, whether floats that go there are encoded: see :func:`is_coded`.

    """
    count = len(sockets)
    assert len(shares) == len(coding) == count, (sockets, shares, coding)
    columns = (ctypes.c_int * count)(*sockets), (ctypes.c_double * count)(*shares), (ctypes.c_bool * count)(*coding)
    _library().autodist_connect(rank, count, *columns)


def disconnect() -> None:
    """Close the connections; what waits for others fails."""
    if _library.cache_info().currsize:
        _library().autodist_disconnect()


def _path() -> Path | None:
    return next(iter(sorted(Path(__file__).parent.glob(_NAME))), None)


@functools.cache
def _library() -> ctypes.CDLL:
    path = _path()
    if path is None:
        raise LaunchError(
            "AutoDist's library for collectives is not on this machine: there was no compiler of C++ when AutoDist was "
            "installed",
            hint="install a compiler (`apt-get install g++`) and AutoDist again, on all hosts; or choose another "
            "communicator, as in `--strategy \"AllReduce(communicator='collective')\"`",
        )
    library = ctypes.CDLL(str(path))
    library.autodist_register.restype = ctypes.c_int
    library.autodist_connect.restype = library.autodist_disconnect.restype = None
    return library
