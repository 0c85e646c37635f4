"""The machines that may connect to Horovod's own ports: the machines of the cluster.

Its workers listen while they connect, once per pair, and take the first connection for that of the other one: then that
one finds no peer, and the process ends by ``std::terminate``. So Horovod's calls of ``listen`` come here, and what
listens hears only the other workers' machines. What others send is dropped, so that they are not named.
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
"""The function that Horovod calls from now on, as long as the process lives."""
_admitted: set[str] = set()


def admit_to_horovod(addresses: Collection[str]) -> None:
    """Have what Horovod listens at from now on hear only some machines; warns where that can't be.

    Args:
        addresses: From which the other workers connect.
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
    """A function for C that listens like another one, but hears less."""

    def narrowed(descriptor: int, backlog: int) -> int:
        try:
            hear_only(descriptor, _admitted)
        except Exception as error:  # none may come to C
            _LOG.warning(_OPEN, error)
        return listen(descriptor, backlog)

    return narrowed
