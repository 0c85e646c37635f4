"""The callers of a worker: the others of its run, and strangers, which keep no worker waiting."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from autodist.transport._peer_handshake import (
    HELLO_BYTES,
    NONCE_BYTES,
    OPENING,
    PROOF_BYTES,
    Connection,
    difference,
    encryption_key,
    parsed,
    proof,
)
from autodist.transport._rejected_peers import RejectedPeers

_STRANGER_S = 3.0
"""How long a caller may take, in all, to prove that it is of the run."""
_AT_ONCE = 128
"""Callers that are listened to at a time; the first caller makes room for the next."""


class _Refused(Exception):
    """A caller is sent away; the message follows its address."""


@dataclass
class _Caller:
    """A caller whose proof has not come yet."""

    connection: socket.socket
    address: str
    until_s: float
    received: bytes = b""
    wanted: int = HELLO_BYTES
    rank: int = -1
    nonces: tuple[bytes, bytes] = field(default=(b"", b""))

    def has_come(self) -> bool:
        """Read what is there, and return whether that is all that is wanted."""
        part = self.connection.recv(self.wanted - len(self.received))
        if not part:
            raise _Refused("it has closed its connection")
        self.received += part
        return len(self.received) == self.wanted


class _Callers:
    """Listens to all callers side by side, each for some seconds in all.

    Args:
        listener: Where they come.
        rank: This worker.
        secret: What only the workers of this run know.
    """

    def __init__(self, listener: socket.socket, rank: int, secret: bytes) -> None:
        self._listener, self._rank, self._secret = listener, rank, secret
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[socket.socket, _Caller] = {}
        self._strangers = RejectedPeers()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def __enter__(self) -> _Callers:
        return self

    def __exit__(self, *error: object) -> None:
        for connection in list(self._waiting):
            self._forget(connection).close()
        self._selector.close()

    def next(self, awaited: set[int], until_s: float) -> tuple[int, Connection] | None:
        """Return a caller that has proved to be one of those that are awaited; None if none has in time."""
        while (left_s := until_s - time.monotonic()) > 0:
            soon_s = min([until_s, *(caller.until_s for caller in self._waiting.values())]) - time.monotonic()
            for key, _ in self._selector.select(max(0.0, min(left_s, soon_s))):
                if key.fileobj is self._listener:
                    self._accept()
                elif (found := self._hear(key.fileobj, awaited)) is not None:
                    return found
            for caller in [one for one in self._waiting.values() if one.until_s <= time.monotonic()]:
                self._send_away(caller, f"it has not proved within {_STRANGER_S:g} s that it is of this run")
        return None

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError:  # it has left already
            return
        if len(self._waiting) >= _AT_ONCE:
            self._send_away(next(iter(self._waiting.values())), "too many have called since")
        connection.setblocking(False)
        self._waiting[connection] = _Caller(connection, _named(address), time.monotonic() + _STRANGER_S)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: Any, awaited: set[int]) -> tuple[int, Connection] | None:
        caller = self._waiting.get(connection)
        if caller is None:  # made room for another one a moment ago
            return None
        try:
            if not caller.has_come():
                return None
            if caller.rank < 0:
                self._challenge(caller)
                return None
            self._check(caller, awaited)
        except (OSError, _Refused) as error:
            self._send_away(caller, str(error))
            return None
        key = encryption_key(self._secret, caller.rank, self._rank, *caller.nonces)
        return caller.rank, Connection(self._forget(connection), key)

    def _challenge(self, caller: _Caller) -> None:
        why = difference(caller.received[: len(OPENING)])
        if why is not None:
            caller.connection.send(OPENING)  # by which the other end can say it as well
            raise _Refused(f"it {why}")
        caller.rank, theirs = parsed(caller.received)
        caller.nonces = theirs, secrets.token_bytes(NONCE_BYTES)
        own = proof(self._secret, b"listens", caller.rank, self._rank, *caller.nonces)
        caller.connection.send(OPENING + caller.nonces[1] + own)  # the system takes so little at once
        caller.received, caller.wanted = b"", PROOF_BYTES

    def _check(self, caller: _Caller, awaited: set[int]) -> None:
        expected = proof(self._secret, b"calls", caller.rank, self._rank, *caller.nonces)
        if not hmac.compare_digest(caller.received, expected):
            raise _Refused("it does not know this run's secret")
        if caller.rank not in awaited:
            raise _Refused(f"it calls itself worker {caller.rank}, which is here already or is not expected")

    def _forget(self, connection: socket.socket) -> socket.socket:
        del self._waiting[connection]
        self._selector.unregister(connection)
        return connection

    def _send_away(self, caller: _Caller, why: str) -> None:
        self._forget(caller.connection).close()
        self._strangers.tell(f"worker {self._rank}: a stranger at {caller.address} was sent away: {why}")


def answered(
    listener: socket.socket, rank: int, awaited: set[int], secret: bytes, until_s: float
) -> dict[int, Connection]:
    """Return the connections of those that are awaited, by rank: fewer if not all have come in time.

    A caller that can't prove within seconds that it is one of them is sent away, while others are heard, and reported
    in the log.

    Args:
        listener: Where they come.
        rank: This worker.
        awaited: The ranks that are expected.
        secret: What only the workers of this run know.
        until_s: Until when they are awaited, by the monotonic clock.
    """
    found: dict[int, Connection] = {}
    with contextlib.ExitStack() as stack, _Callers(listener, rank, secret) as callers:
        while len(found) < len(awaited):
            caller = callers.next(awaited - found.keys(), until_s)
            if caller is None:
                break
            stack.enter_context(caller[1].socket)
            found[caller[0]] = caller[1]
        stack.pop_all()
    return found


def _named(address: Any) -> str:
    return f"{address[0]}, port {address[1]}" if isinstance(address, tuple) else str(address) or "a path"
