"""Horovod's rendezvous, so that workers can call ``hvd.init()`` without ``horovodrun``."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from autodist.runtime import HorovodRendezvous

__all__ = ["horovod_rendezvous"]


@contextlib.contextmanager
def horovod_rendezvous(machines: Sequence[str], address: str = "127.0.0.1") -> Iterator[HorovodRendezvous | None]:
    """Serve Horovod's rendezvous; None where Horovod is not installed.

    Horovod's own server listens on all interfaces, without a secret; this one only on ``address``.

    Args:
        machines: Name of each worker's machine, by rank.
        address: Where to listen.
    """
    server = _server(address) if importlib.util.find_spec("horovod") else None
    if server is None:
        yield None
        return
    workers = Counter(machines)
    server.scope_size.update({"global": len(machines)} | {f"local_{name}": count for name, count in workers.items()})
    places = range(max(workers.values()))
    server.scope_size.update({f"cross_{place}": sum(place < count for count in workers.values()) for place in places})
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="horovod rendezvous", daemon=True)
    thread.start()
    try:
        yield HorovodRendezvous(address, server.server_address[1], host_name=machines[0])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _server(address: str) -> Any:
    """Horovod's server, or None for a Horovod that can't be imported."""
    try:
        from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
    except Exception:
        # A broken build must not keep runs that don't use it from starting; those that do get Horovod's own error.
        return None

    class Server(RendezvousHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 256

    return Server((address, 0), RendezvousHandler, 0)
