"""One TCP connection for each pair of workers, which prove to each other that they belong to one run."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from autodist.congestion import suit
from autodist.errors import LaunchError
from autodist.transport._callers import answered
from autodist.transport._peer_handshake import (
    NONCE_BYTES,
    OPENING,
    PROOF_BYTES,
    Connection,
    difference,
    encryption_key,
    hello,
    proof,
)

_UNSENT_BYTES = 256 << 10
"""Bytes that may wait inside the system, where more urgent ones can't overtake them any more."""
_SILENCE_S = 120
"""Seconds that a connection is kept on which nothing is acknowledged. The launcher finds out in seconds which workers
don't reach each other; this is for what it can't see, and longer because it holds as well for one that is
stopped, and reads nothing."""
_KEEPALIVE_S = 15
_ANSWER_S = 20.0
"""How long a caller waits for the other machine's kernel; the process there, which may have much to do, has longer."""


@dataclass(frozen=True)
class Endpoint:
    """Where a worker listens."""

    address: str
    port: int


def listening(address: str) -> socket.socket:
    """Return a socket that listens at an address of this machine, at a port that the system chooses."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=256)


def connected(
    listener: socket.socket, rank: int, endpoints: Mapping[int, Endpoint], secret: bytes, timeout_s: float
) -> dict[int, Connection]:
    """Return a connection to each other worker, by rank; all workers call this at the same time.

    In each pair, the worker of the higher rank connects. Both prove that they know the secret, without telling it.

    Args:
        listener: Where the workers of higher ranks come.
        rank: This worker.
        endpoints: Where the others listen, by rank.
        secret: What only the workers of this run know.
        timeout_s: Seconds to wait for all of them.

    Raises:
        LaunchError: Some can't be reached, or don't come; names all of them.
    """
    until_s = time.monotonic() + timeout_s
    with contextlib.ExitStack() as stack:
        found: dict[int, Connection] = {}
        for other in sorted(endpoints):
            if other < rank:
                found[other] = _called(endpoints[other], rank, other, secret, until_s)
                stack.enter_context(found[other].socket)
        awaited = {other for other in endpoints if other > rank}
        callers = answered(listener, rank, awaited, secret, until_s) if awaited else {}
        for other, connection in callers.items():
            stack.enter_context(connection.socket)
            found[other] = connection
        if missing := awaited - callers.keys():
            raise LaunchError(
                f"worker {rank} was not connected to by all others in time, missing: "
                f"{', '.join(map(str, sorted(missing)))}",
                hint="their own logs say why; a longer time can be given by `--start-timeout`",
            )
        stack.pop_all()
    for connection in found.values():
        _tune(connection.socket)
    return found


def _tune(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    suit(connection)
    with contextlib.suppress(OSError, AttributeError):  # of Linux
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _SILENCE_S)


def _left_s(until_s: float) -> float:
    return max(0.01, until_s - time.monotonic())


def _called(endpoint: Endpoint, rank: int, other: int, secret: bytes, until_s: float) -> Connection:
    """A connection to a worker that listens."""
    try:
        answer_s = min(_left_s(until_s), _ANSWER_S)
        connection = socket.create_connection((endpoint.address, endpoint.port), timeout=answer_s)
        with contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            connection.settimeout(_left_s(until_s))
            nonce = secrets.token_bytes(NONCE_BYTES)
            connection.sendall(hello(rank, nonce))
            why = difference(_received(connection, len(OPENING), until_s))
            if why is not None:
                raise ConnectionError(f"the listener there {why}; all hosts need the same version of AutoDist")
            challenge = _received(connection, NONCE_BYTES + PROOF_BYTES, until_s)
            theirs, told = challenge[:NONCE_BYTES], challenge[NONCE_BYTES:]
            if not hmac.compare_digest(told, proof(secret, b"listens", rank, other, nonce, theirs)):
                raise ConnectionError("the listener there is not of this run")
            connection.sendall(proof(secret, b"calls", rank, other, nonce, theirs))
            stack.pop_all()
    except OSError as error:
        raise LaunchError(
            f"worker {rank} can't connect to worker {other} at {endpoint.address}, port {endpoint.port}: {error}",
            hint="see whether a firewall is between them: `autodist doctor`; or use another communicator, as in "
            "`--strategy \"AllReduce(communicator='horovod')\"`",
        ) from error
    return Connection(connection, encryption_key(secret, rank, other, nonce, theirs))


def _received(connection: socket.socket, size: int, until_s: float) -> bytes:
    found = b""
    while len(found) < size:
        connection.settimeout(_left_s(until_s))  # in all: single bytes would begin it again each time
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the other end has closed the connection")
        found += part
    return found
