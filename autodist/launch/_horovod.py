"""Horovod's rendezvous, so that workers can call ``hvd.init()`` without ``horovodrun``.

Workers ask for keys by HTTP until others have put them there: ``PUT`` and ``GET`` of ``/scope/key``, and a ``DELETE``
by each worker that shuts down. Horovod's own server listens on all interfaces, and needs Horovod on the launching
machine.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autodist.runtime import HorovodRendezvous

__all__ = ["horovod_rendezvous"]

_LOOPBACK = "127.0.0.1"
_MOST_BYTES = 1 << 20  # of a value; they are addresses
_REQUEST_S = 10.0


@contextlib.contextmanager
def horovod_rendezvous(machines: Sequence[str]) -> Iterator[HorovodRendezvous]:
    """Serve Horovod's rendezvous on the loopback.

    Args:
        machines: Name of each worker's machine, by rank.

    """
    server = _Server(_members(machines))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="horovod rendezvous", daemon=True)
    thread.start()
    try:
        yield HorovodRendezvous(_LOOPBACK, server.server_address[1], host_name=machines[0])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _members(machines: Sequence[str]) -> dict[str, int]:
    """Return how many workers each scope has: all, those of a machine, those of one place on all machines.

    Example:
        >>> _members(["a", "a", "b"])
        {'global': 3, 'local_a': 2, 'local_b': 1, 'cross_0': 2, 'cross_1': 1}

    """
    workers = Counter(machines)
    places = range(max(workers.values()))
    cross = {f"cross_{place}": sum(place < count for count in workers.values()) for place in places}
    return {"global": len(machines), **{f"local_{name}": count for name, count in workers.items()}, **cross}


class _Server(ThreadingHTTPServer):
    """Holds the values of all scopes."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, members: dict[str, int]) -> None:
        super().__init__((_LOOPBACK, 0), _Handler)
        self.lock = threading.Lock()
        self.values: dict[str, dict[str, bytes]] = {}
        self._members = members
        self._ended: Counter[str] = Counter()

    def end(self, scope: str, key: str) -> None:
        """Note that a worker is done with a scope; the last one empties it, so that Horovod may be begun anew."""
        with self.lock:
            if scope not in self._members:
                self.values.get(scope, {}).pop(key, None)
                return
            self._ended[scope] += 1
            if self._ended[scope] >= self._members[scope]:
                del self._ended[scope]
                self.values.pop(scope, None)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_S

    def do_GET(self) -> None:
        scope, key = self._place()
        with self.server.lock:
            value = self.server.values.get(scope, {}).get(key)
        self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")

    def do_PUT(self) -> None:
        scope, key = self._place()
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > _MOST_BYTES or not key:
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        value = self.rfile.read(int(size))
        if len(value) == int(size):
            with self.server.lock:
                self.server.values.setdefault(scope, {})[key] = value
            self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        self.server.end(*self._place())
        self._answer(HTTPStatus.OK)

    def _place(self) -> tuple[str, str]:
        _, _, rest = self.path.partition("/")
        scope, _, key = rest.partition("/")
        return scope, key

    def _answer(self, status: HTTPStatus, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
