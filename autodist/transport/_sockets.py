"""One TCP connection for each pair of workers, which prove to each other that they belong to one run."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from autodist.errors import LaunchError

__all__ = ["Endpoint", "connected", "listening"]

_NONCE_BYTES = 32
_RANK = struct.Struct("!I")
_HELLO_BYTES = _RANK.size + _NONCE_BYTES
_PROOF_BYTES = hashlib.sha256().digest_size
_STRANGER_S = 10.0
_UNSENT_BYTES = 256 << 10
"""How much may wait inside the system: what is more urgent can't overtake it any more."""


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
) -> dict[int, socket.socket]:
    """Return a connection to each other worker, by rank; all workers call this at the same time.

    Of each pair the one of the higher rank connects. Both prove that they know the secret, without telling it.

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
        found: dict[int, socket.socket] = {}
        for other in sorted(endpoints):
            if other < rank:
                found[other] = stack.enter_context(_called(endpoints[other], rank, other, secret, until_s))
        awaited = {other for other in endpoints if other > rank}
        while awaited - found.keys():
            other, connection = _answered(listener, rank, awaited - found.keys(), secret, until_s)
            found[other] = stack.enter_context(connection)
        stack.pop_all()
    for connection in found.values():
        _tune(connection)
    return found


def _tune(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError, AttributeError):  # of Linux
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def _left_s(until_s: float) -> float:
    return max(0.01, until_s - time.monotonic())


def _called(endpoint: Endpoint, rank: int, other: int, secret: bytes, until_s: float) -> socket.socket:
    """A connection to a worker that listens."""
    try:
        connection = socket.create_connection((endpoint.address, endpoint.port), timeout=_left_s(until_s))
        with contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            connection.settimeout(_left_s(until_s))
            nonce = secrets.token_bytes(_NONCE_BYTES)
            connection.sendall(_RANK.pack(rank) + nonce)
            challenge = _received(connection, _NONCE_BYTES + _PROOF_BYTES)
            theirs, proof = challenge[:_NONCE_BYTES], challenge[_NONCE_BYTES:]
            if not hmac.compare_digest(proof, _proof(secret, b"listens", rank, other, nonce, theirs)):
                raise ConnectionError("who listens there is not of this run")
            connection.sendall(_proof(secret, b"calls", rank, other, nonce, theirs))
            stack.pop_all()
    except OSError as error:
        raise LaunchError(
            f"worker {rank} can't connect to worker {other} at {endpoint.address}, port {endpoint.port}: {error}",
            hint="see whether a firewall is between them: `autodist doctor`; or use another communicator, as in "
            "`--strategy \"AllReduce(communicator='horovod')\"`",
        ) from error
    return connection


def _answered(
    listener: socket.socket, rank: int, awaited: set[int], secret: bytes, until_s: float
) -> tuple[int, socket.socket]:
    """A connection of one of those that are awaited; who can't prove that it is one is sent away."""
    while True:
        listener.settimeout(_left_s(until_s))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            names = ", ".join(map(str, sorted(awaited)))
            raise LaunchError(
                f"worker {rank} was not connected to by all others in time, missing: {names}",
                hint="their own logs say why; a longer time can be given by `--start-timeout`",
            ) from None
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            stack.enter_context(connection)
            connection.settimeout(min(_STRANGER_S, _left_s(until_s)))
            hello = _received(connection, _HELLO_BYTES)
            (other,), nonce = _RANK.unpack(hello[: _RANK.size]), hello[_RANK.size :]
            own = secrets.token_bytes(_NONCE_BYTES)
            connection.sendall(own + _proof(secret, b"listens", other, rank, nonce, own))
            proof = _received(connection, _PROOF_BYTES)
            if other in awaited and hmac.compare_digest(proof, _proof(secret, b"calls", other, rank, nonce, own)):
                stack.pop_all()
                return other, connection


def _proof(secret: bytes, role: bytes, caller: int, listener: int, *nonces: bytes) -> bytes:
    said = role + _RANK.pack(caller) + _RANK.pack(listener) + b"".join(nonces)
    return hmac.digest(secret, said, "sha256")


def _received(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the other end has closed the connection")
        found += part
    return found
