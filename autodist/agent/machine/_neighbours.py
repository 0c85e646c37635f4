"""Whether machines reach each other; runs on them.

A machine from which anything comes back is reached: its kernel answers, whatever else it has to do.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from autodist.agent.machine._ports import bound, family_of

__all__ = ["listen", "silent"]

_BACKLOG = 1024  # connections of as many machines at the same moment
_SILENT = frozenset(
    {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
    | {errno.EINVAL, errno.EACCES}  # errors of routes that lead nowhere
)


def listen(address: str, first_port: int, last_port: int) -> int:
    """Listen as long as the agent lives, and return the port. Connections are closed at once, and nothing is read.

    Args:
        address: Address of this machine.
        first_port: First port of the range to choose from.
        last_port: The last one of it.

    Raises:
        OSError: The address is not one of this machine, or no port is free.
    """
    listener = bound(address, first_port, last_port, _BACKLOG)
    threading.Thread(target=_send_away, args=(listener,), name="neighbours", daemon=True).start()
    return int(listener.getsockname()[1])


def silent(targets: Sequence[Sequence[Any]], patience_s: float) -> list[str]:
    """Connect to each of ``(name, address, port)`` at once; return the names of those from which nothing came back."""
    found: list[str] = []
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for name, address, port in targets:
            end = stack.enter_context(socket.socket(family_of(address)))
            end.setblocking(False)
            error = end.connect_ex((address, port))
            if error == errno.EINPROGRESS:
                waiting.register(end, selectors.EVENT_WRITE, name)
            elif error in _SILENT:
                found.append(name)
        deadline_s = time.monotonic() + patience_s
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline_s - time.monotonic()))
            if not ready and time.monotonic() >= deadline_s:  # in this order: this thread may have been late itself
                break
            for key, _ in ready:
                waiting.unregister(key.fileobj)
                if _error_of(key.fileobj) in _SILENT:
                    found.append(key.data)
        found += [key.data for key in waiting.get_map().values()]
    return sorted(found)


def _error_of(end: Any) -> int:
    return int(end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def _send_away(listener: socket.socket) -> None:
    with listener:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:  # it has left already, or there are no descriptors for a moment
                time.sleep(0.01)
