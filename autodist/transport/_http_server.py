"""An HTTP server that strangers can't keep busy: a client has seconds to show that it may connect."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_STRANGER_S = 10.0
"""How long a client may take, in all, to show the secret."""
_MOST_STRANGERS = 512
"""Connections at a time that have not shown it yet; the oldest makes room for the next."""


class HttpServer(ThreadingHTTPServer):
    """Listens to each connection in a thread of its own; a handler calls :meth:`let_stay` once it knows the client.

    Args:
        address: To listen on; the port 0 leaves it to the system.
        handler: Answers the requests.
        tls: Context by which connections are encrypted; None for none.
    """

    daemon_threads = True
    block_on_close = False  # a client may be in a wait of minutes
    request_queue_size = 256

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(address, handler)
        self._tls = tls
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, float] = {}  # until when each is listened to; the oldest first
        self._sent_away: set[socket.socket] = set()  # until their threads have ended

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; what it takes to encrypt it is exchanged in its own thread, with the first request."""
        request, address = super().get_request()
        if self._tls is not None:
            request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return request, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Listen to a connection in a thread of its own, whose number has a bound."""
        with self._lock:
            self._strangers[request] = time.monotonic() + _STRANGER_S
        super().process_request(request, client_address)
        self._send_away()

    def service_actions(self) -> None:
        """Send those away that have taken too long; called all the time."""
        self._send_away()

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that is over."""
        with self._lock:
            self._strangers.pop(request, None)
            self._sent_away.discard(request)
        super().shutdown_request(request)

    def let_stay(self, request: socket.socket) -> None:
        """Let a connection that has shown the secret take its time.

        Raises:
            ConnectionAbortedError: It was sent away before, so it does not get the answer. On a busy machine this
                happens to welcome clients, too: nothing was done then, and they may ask again.
        """
        with self._lock:
            if request in self._sent_away:
                raise ConnectionAbortedError("the secret came too late")
            self._strangers.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: it is no news that a client is killed in the middle of a request."""

    def _send_away(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            too_many = len(self._strangers) - _MOST_STRANGERS
            for number, (stranger, until_s) in enumerate(list(self._strangers.items())):
                if number >= too_many and until_s > now_s:
                    break
                del self._strangers[stranger]
                self._sent_away.add(stranger)
                with contextlib.suppress(OSError):  # its thread then reads the end, and ends
                    stranger.shutdown(socket.SHUT_RDWR)
