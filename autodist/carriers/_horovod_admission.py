"""Lets only the machines of the cluster connect to Horovod's own ports.

For each pair of workers, one listens and takes the first connection for that of the other one. If a stranger is first,
the other one finds no peer, and its process ends by ``std::terminate``. So Horovod's calls of ``listen`` are redirected
here, and its sockets hear only the other workers' machines. Packets of strangers are dropped without a report.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Collection
from typing import Any

from autodist.carriers._packet_filter import hear_only
from autodist.transport import redirect

_LOG = logging.getLogger("autodist")
_LIBRARY = "mpi_lib."
_LISTEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, use_errno=True)
_OPEN = (
    "Horovod's ports take connections from everybody while its workers connect (%s): a stranger there ends the run; "
    "keep others out by a firewall"
)

_kept: list[Any] = []
"""Keeps the function that Horovod calls instead of ``listen`` alive as long as the process."""
_admitted: set[str] = set()


def admit_to_horovod(addresses: Collection[str]) -> None:
    """Let the sockets at which Horovod listens from now on hear only some machines; warns if that is impossible.

    Args:
        addresses: The addresses from which the other workers connect.
    """
    _admitted.clear()
    _admitted.update(addresses)
    if not _kept and not _stand_between():
        _LOG.warning(_OPEN, "its library is another one than expected")


def _stand_between() -> bool:
    try:
        listening = _LISTEN(_narrowed(_LISTEN(("listen", ctypes.CDLL(None, use_errno=True)))))
    except (OSError, AttributeError):
        return False
    if redirect("listen", _LIBRARY, ctypes.cast(listening, ctypes.c_void_p).value or 0):
        _kept.append(listening)
    return bool(_kept)


def _narrowed(listen: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A function for C that calls another one to listen, after it has restricted the socket."""

    def narrowed(descriptor: int, backlog: int) -> int:
        try:
            hear_only(descriptor, _admitted)
        except Exception as error:  # no exception may reach C
            _LOG.warning(_OPEN, error)
        return listen(descriptor, backlog)

    return narrowed
