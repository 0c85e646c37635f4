"""Horovod's rendezvous, which a worker serves to its own Horovod alone; the coordinator holds the values.

Horovod learns the other workers' addresses by HTTP: ``PUT`` and ``GET`` of ``/scope/key``, and a ``DELETE`` by each
worker once it has connected. Its client knows no password, but asks below any path that follows the server's address:
that path is a secret of the process. A scope is used again after a shutdown, and for each set of processes; as every
member then deletes once, all count alike how often they have used it, and each use has keys of its own.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from autodist.carriers._base import Board
from autodist.carriers._horovod_environment import RENDEZVOUS_ADDRESS, RENDEZVOUS_PORT
from autodist.errors import AutoDistError, TimedOut, UsageError, WorkerFailed
from autodist.transport import HttpServer

_LOOPBACK = "127.0.0.1"
_MOST_BYTES = 1 << 20
"""The most that a value may have; values are addresses."""
_MOST_BYTES_IN_ALL = 64 << 20
_MOST_VALUES = 1 << 16
_WAIT_S = 1.0
"""How long to wait for a value, before Horovod is told that it is missing; it asks a hundred times a second."""


def serve_horovod(board: Board) -> None:
    """Serve the rendezvous as long as this process lives, and tell Horovod where; for a process that imports it.

    Raises:
        UsageError: The run is to be encrypted.
    """
    if board.certificate:
        raise UsageError(
            "the run is to be encrypted (`--encrypt`), but the script imports Horovod, which sends everything in the "
            "clear",
            hint="do without Horovod, or without `--encrypt` on a private network",
        )
    rendezvous = HorovodRendezvous(board)
    os.environ |= rendezvous.to_environ()
    threading.Thread(target=rendezvous.serve_forever, name="horovod rendezvous", daemon=True).start()


class HorovodRendezvous(HttpServer):
    """The server.

    Args:
        board: Holds the values for all workers.
    """

    def __init__(self, board: Board) -> None:
        super().__init__((_LOOPBACK, 0), _Handler)
        self._board = board
        self._secret = secrets.token_hex(16)
        self._values = threading.Lock()
        self._uses: Counter[str] = Counter()  # by scope, how many uses have ended
        self._written: dict[str, bytes] = {}
        self._written_bytes = 0

    def to_environ(self) -> dict[str, str]:
        """Return the variables by which Horovod finds it; Horovod appends the port to the address, and then a path."""
        port = str(self.server_address[1])
        return {RENDEZVOUS_ADDRESS: f"{_LOOPBACK}:{port}/{self._secret}", RENDEZVOUS_PORT: port}

    def is_secret(self, text: str) -> bool:
        """Whether a client knows the secret, and so belongs to this process."""
        return hmac.compare_digest(text.encode(), self._secret.encode())

    def value(self, scope: str, key: str) -> bytes | None:
        """Return what a worker has written, after a short wait; None if there is nothing."""
        try:
            return self._board.get(self._name(scope, key), _WAIT_S)
        except (TimedOut, WorkerFailed):  # the run has failed; this worker will be ended properly
            return None

    def write(self, scope: str, key: str, value: bytes) -> HTTPStatus:
        """Write a value, only once; Horovod repeats the request if it has got no answer."""
        name = self._name(scope, key)
        with self._values:
            if self._written.get(name, value) != value:
                return HTTPStatus.CONFLICT
            if name not in self._written:
                if len(self._written) >= _MOST_VALUES or self._written_bytes + len(value) > _MOST_BYTES_IN_ALL:
                    return HTTPStatus.INSUFFICIENT_STORAGE
                self._written[name] = value
                self._written_bytes += len(value)
        self._board.put(name, value)
        return HTTPStatus.OK

    def end(self, scope: str) -> None:
        """Record that this process has finished one use of a scope."""
        with self._values:
            self._uses[scope] += 1

    def _name(self, scope: str, key: str) -> str:
        return f"horovod/rendezvous/{scope}/{self._uses[scope]}/{key}"


class _Handler(BaseHTTPRequestHandler):
    server: HorovodRendezvous
    timeout = 10.0

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        try:
            status, content = self._answered()
        except AutoDistError:
            status, content = HTTPStatus.SERVICE_UNAVAILABLE, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answered(self) -> tuple[HTTPStatus, bytes]:
        words = self.path.split("/", 3)
        # Horovod writes the port after the secret.
        if len(words) < 4 or not self.server.is_secret(words[1].partition(":")[0]):
            return HTTPStatus.FORBIDDEN, b""
        self.server.let_stay(self.connection)
        scope, key = words[2:]
        if self.command == "PUT":
            return self._written(scope, key), b""
        if self.command == "DELETE":
            self.server.end(scope)
            return HTTPStatus.OK, b""
        value = self.server.value(scope, key)
        return (HTTPStatus.NOT_FOUND, b"") if value is None else (HTTPStatus.OK, value)

    def _written(self, scope: str, key: str) -> HTTPStatus:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > _MOST_BYTES or not key:
            return HTTPStatus.BAD_REQUEST
        value = self.rfile.read(int(size))
        return self.server.write(scope, key, value) if len(value) == int(size) else HTTPStatus.BAD_REQUEST

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
