"""Connections between machines: whether they can be made, how long a message takes, how much passes; runs there.

One machine listens (:func:`listen`) and the others connect. A client sends the token first, so that no stranger can
make a machine send or receive anything. What is measured is measured by the side that receives.
"""

from __future__ import annotations

import contextlib
import hmac
import select
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from autodist.agent.machine._ports import bound
from autodist.congestion import suit

__all__ = ["bandwidth", "burst", "latency", "listen", "reach"]

_ECHO, _SINK, _TRAIN = b"E", b"S", b"T"
_TOKEN_BYTES = 64
_WINDOW = struct.Struct("!dd")  # seconds to warm up, seconds to measure
_EXPECTED = struct.Struct("!dd")  # bytes per second over a long time, seconds to listen
_TOLD = struct.Struct("!d")  # bytes per second, or bytes
_CHUNK = bytes(1 << 18)
_REST_S = 0.25
_LISTEN_S = 0.05
_FASTER = 4.0
"""The multiple of a link's rate beyond which bytes did not come at that rate. A token bucket lets bytes through at the
speed of what is behind it; other work makes a link that processors bound up to twice as fast for a while."""
_IDLE_S = 10.0  # longest silence on a connection
_MOST_CONNECTIONS = 256


def listen(address: str, first_port: int, last_port: int, token: str, lifetime_s: float) -> int:
    """Listen for the functions below until the lifetime is over, and return the port.

    Args:
        address: Address of this machine.
        first_port: First port of the range to choose from.
        last_port: The last one of it.
        token: What others have to say, 64 characters.
        lifetime_s: How long to listen.

    Raises:
        OSError: The address is not one of this machine, or no port is free.
    """
    end = bound(address, first_port, last_port, backlog=64)
    threading.Thread(target=_serve, args=(end, token.encode(), time.monotonic() + lifetime_s), daemon=True).start()
    return int(end.getsockname()[1])


def reach(targets: Sequence[Sequence[Any]], token: str, patience_s: float) -> dict[str, str]:
    """Try to connect to each of ``(name, address, port)`` at once, and return by name why not, empty where it went."""
    found = {str(name): f"no answer within {patience_s:g} s" for name, _, _ in targets}

    def attempt(name: str, address: str, port: int) -> None:
        try:
            with _connected(address, port, token, _ECHO, patience_s) as end:
                _ping(end)
            found[name] = ""
        except OSError as error:
            found[name] = error.strerror or str(error)

    threads = [threading.Thread(target=attempt, args=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience_s + 1.0
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def latency(address: str, port: int, token: str, rounds: int) -> float:
    """Return the milliseconds that a small message takes one way: half of the median there and back.

    Raises:
        OSError: The connection can't be made, or breaks.
    """
    with _connected(address, port, token, _ECHO, _IDLE_S) as end:
        for _ in range(3):
            _ping(end)
        return 500.0 * statistics.median(_ping(end) for _ in range(rounds))


def bandwidth(address: str, port: int, token: str, warm_up_s: float, measure_s: float) -> float:
    """Return the Gbit/s that arrive at the other machine when this one sends as fast as it can.

    Raises:
        OSError: The connection can't be made, or breaks.
    """
    with _connected(address, port, token, _SINK, _IDLE_S) as end:
        suit(end)  # as workers' connections do: BBR takes a machine with other work for a slow link
        end.sendall(_WINDOW.pack(warm_up_s, measure_s))
        return 8e-9 * _flooded(end, warm_up_s + measure_s)


def burst(address: str, port: int, token: str, gbps: float, trains: int) -> list[float]:
    """Return, for each of some trains of bytes, the KB (10^3 bytes) that arrive at once after a rest.

    What the link passes at its rate meanwhile does not count.

    Raises:
        OSError: The connection can't be made, or breaks.
    """
    found = []
    for _ in range(trains):
        with _connected(address, port, token, _TRAIN, _IDLE_S) as end:
            time.sleep(_REST_S)
            end.sendall(_EXPECTED.pack(gbps / 8e-9, _LISTEN_S))
            found.append(_flooded(end, _LISTEN_S) / 1e3)
    return found


def _flooded(end: socket.socket, duration_s: float) -> float:
    """Send as fast as possible until the other side has told a number."""
    end.setblocking(False)
    # What the kernel still holds when the time is over is not worth waiting for on a slow link.
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    deadline = time.monotonic() + duration_s + _IDLE_S
    while time.monotonic() < deadline:
        readable, writable, _ = select.select([end], [end], [], 1.0)
        if readable:
            end.settimeout(_IDLE_S)
            return float(_TOLD.unpack(_exactly(end, _TOLD.size))[0])
        if writable:
            with contextlib.suppress(BlockingIOError):
                end.send(_CHUNK)
    raise TimeoutError("the other machine did not say what has arrived")


def _connected(address: str, port: int, token: str, what: bytes, timeout_s: float) -> socket.socket:
    end = socket.create_connection((address, port), timeout_s)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.sendall(token.encode() + what)
    return end


def _ping(end: socket.socket) -> float:
    started = time.perf_counter()
    end.sendall(b".")
    _exactly(end, 1)
    return time.perf_counter() - started


def _exactly(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = end.recv(size - len(data))
        if not piece:
            raise ConnectionError("the other machine has closed the connection")
        data += piece
    return data


def _serve(end: socket.socket, token: bytes, deadline: float) -> None:
    room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
    with end:
        while (left := deadline - time.monotonic()) > 0:
            end.settimeout(left)
            try:
                connection, _ = end.accept()
            except OSError:
                continue
            if room.acquire(blocking=False):
                threading.Thread(target=_answer, args=(connection, token, deadline, room), daemon=True).start()
            else:
                connection.close()


def _answer(end: socket.socket, token: bytes, deadline: float, room: threading.BoundedSemaphore) -> None:
    try:
        with end, contextlib.suppress(OSError):
            end.settimeout(_IDLE_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hmac.compare_digest(_exactly(end, _TOKEN_BYTES), token):
                _ANSWERS[_exactly(end, 1)](end, deadline)
    finally:
        room.release()


def _echo(end: socket.socket, deadline: float) -> None:
    while time.monotonic() < deadline and (data := end.recv(64)):
        end.sendall(data)


def _sink(end: socket.socket, deadline: float) -> None:
    _tell(end, _received_rate(end), deadline)


def _train(end: socket.socket, deadline: float) -> None:
    _tell(end, _received_at_once(end), deadline)


def _tell(end: socket.socket, number: float, deadline: float) -> None:
    end.sendall(_TOLD.pack(number))
    # Closing with bytes unread would reset the connection, which the other still sends on until it sees the answer.
    room = bytearray(1 << 20)
    while time.monotonic() < deadline and end.recv_into(room):
        pass


_ANSWERS = {_ECHO: _echo, _SINK: _sink, _TRAIN: _train}


def _received_at_once(end: socket.socket) -> float:
    """Return the bytes that arrive beyond those that the link passes at its rate, while they come much faster."""
    bytes_per_s, listen_s = _EXPECTED.unpack(_exactly(end, _EXPECTED.size))
    room = bytearray(1 << 14)
    end.recv_into(room)
    begun, total, most = time.monotonic(), 0, 0.0
    passed_s = 0.0
    while passed_s < listen_s:
        size = end.recv_into(room)
        passed_s = time.monotonic() - begun
        if not size:
            break
        total += size
        if total > _FASTER * bytes_per_s * passed_s:
            most = max(most, total - bytes_per_s * passed_s)
    return most


def _received_rate(end: socket.socket) -> float:
    """Return the bytes per second that arrive within the time that is measured."""
    warm_up_s, measure_s = _WINDOW.unpack(_exactly(end, _WINDOW.size))
    room = bytearray(1 << 20)
    begun, total = time.monotonic(), 0
    first_s = last_s = 0.0
    while not first_s or last_s < first_s + measure_s:
        size = end.recv_into(room)
        last_s = time.monotonic() - begun
        if not size:
            break
        if first_s:
            total += size
        elif last_s >= warm_up_s:
            first_s = last_s
    return total / (last_s - first_s) if last_s > first_s else 0.0
