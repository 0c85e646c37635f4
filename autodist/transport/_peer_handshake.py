"""The first words of two workers: what they speak, and, without telling it, that they know the run's secret."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import sys
from typing import NamedTuple

_MARK = b"ADtp"
_VERSION = 2
"""Version of messages, and of what precedes them: see ``native/peer.h``. Another number for each change."""
_ORDERS = {"little": b"<", "big": b">"}
OPENING = _MARK + bytes([_VERSION]) + _ORDERS[sys.byteorder]
"""The first bytes of each end."""
NONCE_BYTES = 32
PROOF_BYTES = hashlib.sha256().digest_size
_RANK = struct.Struct("!I")
HELLO_BYTES = len(OPENING) + _RANK.size + NONCE_BYTES


class Connection(NamedTuple):
    """The connection of two workers, once each has proved that it is of the run.

    Attributes:
        socket: The connected socket.
        key: The key by which both can encrypt; for this connection alone, and never sent.
    """

    socket: socket.socket
    key: bytes


def hello(rank: int, nonce: bytes) -> bytes:
    """Return the first message of a caller."""
    return OPENING + _RANK.pack(rank) + nonce


def parsed(message: bytes) -> tuple[int, bytes]:
    """Return the rank and the nonce of a hello."""
    begin = len(OPENING)
    (rank,) = _RANK.unpack(message[begin : begin + _RANK.size])
    return rank, message[begin + _RANK.size :]


def difference(opening: bytes) -> str | None:
    """Return why an end with this opening is not understood, in words that follow "it"; None if it is."""
    if opening == OPENING:
        return None
    if opening[: len(_MARK)] != _MARK:
        return "speaks something else"
    version, order = opening[len(_MARK)], opening[len(_MARK) + 1 :]
    if version != _VERSION:
        return f"speaks version {version} of the transport, and this worker version {_VERSION}"
    named = {sign: name for name, sign in _ORDERS.items()}.get(order, "unknown")
    return f"has numbers in {named}-endian order, and this worker in {sys.byteorder}-endian order"


def encryption_key(secret: bytes, caller: int, listener: int, *nonces: bytes) -> bytes:
    """Return the key of the connection on which these nonces were exchanged."""
    return proof(secret, b"encrypts", caller, listener, *nonces)


def proof(secret: bytes, role: bytes, caller: int, listener: int, *nonces: bytes) -> bytes:
    """Return the answer to these nonces that needs the secret, as the one that calls or that listens."""
    said = role + OPENING + _RANK.pack(caller) + _RANK.pack(listener) + b"".join(nonces)
    return hmac.digest(secret, said, "sha256")
