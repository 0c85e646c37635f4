"""The library: whether it is there, and what Python asks of it."""

from __future__ import annotations

import atexit
import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

from autodist.errors import LaunchError
from autodist.installation import TENSORFLOW_ALONE

_NAME = "_collectives*.so"
KEY_BYTES = 32
OP_PREFIX = "Autodist"
"""The begin of the names of the library's operations."""
_VERSION = 3
"""The version of the library's functions and operations, as in native/ops.cc; the two are installed together."""
_MOST_WORDS = 4 << 10  # as in native/operation.cc


def is_built() -> bool:
    """Return whether the library was built when AutoDist was installed, which needs a compiler of C++.

    Looks for its file, and loads nothing.
    """
    return _path() is not None


def register() -> None:
    """Make the library's operations, from ``AutodistAllReduce`` to ``AutodistEndWatch``, known to TensorFlow.

    Raises:
        LaunchError: The library is not there, or this TensorFlow lacks the functions that it needs.
    """
    import tensorflow  # noqa: F401  its library must be loaded

    if not _library().autodist_register():
        raise LaunchError(
            "AutoDist's library for collectives does not work with this TensorFlow",
            hint=f"choose another communicator, as in {TENSORFLOW_ALONE}",
        )


def connect(
    rank: int,
    sockets: Sequence[int],
    shares: Sequence[float],
    coding: Sequence[bool],
    keys: Sequence[bytes] | None = None,
    timeout_s: float = 60.0,
) -> None:
    """Open this process' side of the connections; those that were open before are closed.

    Args:
        rank: This worker.
        sockets: By rank, the descriptor of a connected socket, which the library takes over; -1 for the own one.
        shares: By rank, which part of a large tensor is summed there; together 1, and the same on all workers.
        coding: By rank, whether floats that go there are encoded: see :func:`is_coded`.
        keys: By rank, 32 bytes by which the connection is encrypted, empty for the own one; None for none at all.
        timeout_s: The longest time to agree with another worker on how to encrypt.

    Raises:
        LaunchError: Some worker lacks the key of its connection.
    """
    count = len(sockets)
    assert len(shares) == len(coding) == count, (sockets, shares, coding)
    columns = (ctypes.c_int * count)(*sockets), (ctypes.c_double * count)(*shares), (ctypes.c_bool * count)(*coding)
    joined = None if keys is None else b"".join(key or bytes(KEY_BYTES) for key in keys)
    assert joined is None or len(joined) == KEY_BYTES * count, "keys have one size"
    if joined is not None:
        atexit.register(disconnect)  # before OpenSSL is taken down, which C does at the end of a process
    wrong = _library().autodist_connect(rank, count, *columns, joined, ctypes.c_double(timeout_s))
    if wrong is not None:
        raise LaunchError(
            f"worker {rank} can't encrypt its connection to {wrong.decode()}",
            hint="somebody between them may change what they send; else see the other worker's log",
        )


def disconnect() -> None:
    """Close the connections; what waits for others fails."""
    if _library.cache_info().currsize:
        _library().autodist_disconnect()


def refuse(question: str, tensors: int, rank: int, words: str) -> bool:
    """Answer a question of another worker by words that say why there is no answer; its step fails with them.

    Args:
        question: Name of the question, of ``AutodistAsk``.
        tensors: How many an answer has.
        rank: The worker that has asked.
        words: The reason, in a few words.

    Returns:
        Whether they could be sent; else the workers are connected no more.
    """
    said = words.encode(errors="replace").replace(b"\0", b"")[:_MOST_WORDS] or b"it gave no reason"
    return bool(_library().autodist_refuse(question.encode(), tensors, rank, said))


def withdraw(question: str, tensors: int) -> None:
    """Wait no more for a question of this many tensors, if it has not been asked yet: its ``AutodistReceive`` fails."""
    _library().autodist_withdraw(question.encode(), tensors)


def _path() -> Path | None:
    return next(iter(sorted(Path(__file__).parent.glob(_NAME))), None)


@functools.cache
def _library() -> ctypes.CDLL:
    path = _path()
    if path is None:
        raise LaunchError(
            "AutoDist's library for collectives is not on this machine: there was no C++ compiler when AutoDist was "
            "installed",
            hint="install a compiler (`apt-get install g++`) and AutoDist again, on all hosts; or choose another "
            f"communicator, as in {TENSORFLOW_ALONE}",
        )
    library = ctypes.CDLL(str(path))
    if not hasattr(library, "autodist_version") or library.autodist_version() != _VERSION:
        raise LaunchError(
            f"AutoDist's library for collectives, `{path}`, was built for another version of AutoDist",
            hint="install AutoDist again, from where it was installed: that builds the library (in a checkout "
            "`python setup.py build_ext --inplace` does)",
        )
    library.autodist_register.restype = ctypes.c_int
    library.autodist_refuse.restype = ctypes.c_int
    library.autodist_withdraw.restype = None
    library.autodist_connect.restype = ctypes.c_char_p
    library.autodist_disconnect.restype = None
    return library
