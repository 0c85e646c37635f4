"""Questions of workers to each other between steps: values of variables that live in the other's session.

Streams carry what every step needs, at the same place in all workers' steps. What the program looks at, what is saved,
and what a step that trains nothing reads, is asked for by one worker at any time; a thread of the other answers, with
what its session holds at that moment. Connections are those of the transport's kind: opened together, proved to be of
the run, and nothing listens afterwards.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from autodist.coordination import Worker, sockets_to_all
from autodist.error_text import said_by
from autodist.errors import TimedOut, WorkerFailed
from autodist.runtime.data import aligned_empty

_LENGTH = struct.Struct("!I")
_LONGEST_BYTES = 1 << 24
"""Largest size of a question, or of what precedes values: names of at most 64 MB of variables."""

Wanted = tuple[str, tuple[int, ...], Any]
"""A variable's name, shape and NumPy type."""
_Read = Callable[[Sequence[str]], Iterator[tuple[str, np.ndarray]]]


class _RemoteValues:
    """The other workers, as far as they are asked for values; all scopes of the process share the connections."""

    def __init__(self) -> None:
        self._asked: dict[int, socket.socket] = {}
        self._answering: list[socket.socket] = []
        self._readers: dict[str, Callable[[], _Read | None]] = {}
        self._is_open = False
        self._lock = threading.Lock()

    def open(self, worker: Worker) -> None:
        """Connect to all other workers, unless that was done before; all workers do so together.

        Raises:
            LaunchError: Some worker can't be reached.
        """
        if self._is_open or worker.world_size == 1:
            return
        # Each worker of a pair has one connection on which it asks, and one on which it answers.
        for turn, asks_higher in enumerate((True, False)):
            for other, connection in sockets_to_all(worker, f"values/{turn}").items():
                if (other > worker.rank) is asks_higher:
                    self._asked[other] = connection
                    continue
                self._answering.append(connection)
                name = f"autodist answers worker {other}"
                threading.Thread(target=self._answer, args=(connection,), name=name, daemon=True).start()
        self._is_open = True
        worker.on_exit(self._close)

    def answer_from(self, container: str, read: _Read) -> None:
        """Answer from now on what others ask of the variables in a resource container.

        Args:
            container: Its name.
            read: A bound method; its object is not kept alive.
        """
        self._readers[container] = weakref.WeakMethod(read)

    def answer_no_more(self, container: str) -> None:
        """Take back :meth:`answer_from`."""
        self._readers.pop(container, None)

    def read(self, rank: int, container: str, wanted: Sequence[Wanted], timeout_s: float) -> list[np.ndarray]:
        """Values of variables that another worker holds, at the moment at which it is asked.

        Args:
            rank: The worker.
            container: Resource container of the variables.
            wanted: Which.
            timeout_s: Longest wait for all of them.

        Raises:
            TimedOut: They have not come in time.
            WorkerFailed: The worker is gone, or can't read them.
        """
        names = [name for name, _, _ in wanted]
        with self._lock:  # a thread of the program may look at a variable while another one does
            connection = self._asked.get(rank)
            if connection is None:
                raise WorkerFailed(
                    f"worker {rank}, where `{names[0]}` lives, can't be asked any more", hint=_see_log(rank)
                )
            try:
                return _asked(connection, container, wanted, time.monotonic() + timeout_s)
            except WorkerFailed:
                raise  # an answer, and the whole of it
            except BaseException as error:
                # Even after an interrupt: the rest of a half-read answer would be taken for another one.
                self._asked.pop(rank).close()
                if isinstance(error, TimeoutError):
                    raise TimedOut(
                        f"worker {rank} has not sent `{names[0]}` within {timeout_s:g} s",
                        hint=f"it is stopped, or its link is slow: {_see_log(rank)}",
                    ) from error
                if isinstance(error, OSError):
                    raise WorkerFailed(
                        f"worker {rank}, where `{names[0]}` lives, is gone: {error}", hint=_see_log(rank)
                    ) from error
                raise

    def _answer(self, connection: socket.socket) -> None:
        """Answer one other worker until it leaves."""
        with contextlib.suppress(OSError, ValueError, TypeError), connection:  # an invalid question ends it as well
            while True:
                container, names = json.loads(_received_message(connection, None))
                self._tell(connection, container, names)

    def _tell(self, connection: socket.socket, container: str, names: list[str]) -> None:
        try:
            read = self._readers[container]()
            if read is None:
                raise KeyError(container)
            values = [np.ascontiguousarray(value) for _, value in read(names)]
        except Exception as error:  # the session is gone, or never had them: the asking worker must know
            why = "it has left the scope" if isinstance(error, KeyError) else said_by(error)
            _send_message(connection, {"error": why})
            return
        _send_message(connection, {"sizes": [value.nbytes for value in values]})
        for value in values:
            if value.nbytes:
                connection.sendall(_bytes(value))

    def _close(self) -> None:
        for connection in (*self._asked.values(), *self._answering):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._asked.clear()
        self._answering.clear()
        self._is_open = False


REMOTE_VALUES = _RemoteValues()


def _see_log(rank: int) -> str:
    return f"`logs/{rank}.log` of the run says why; what was trained until then is in the last checkpoint"


def _asked(connection: socket.socket, container: str, wanted: Sequence[Wanted], until_s: float) -> list[np.ndarray]:
    connection.settimeout(_left_s(until_s))
    _send_message(connection, [container, [name for name, _, _ in wanted]])
    told = _answer_in(_received_message(connection, until_s))
    if "error" in told:
        raise WorkerFailed(
            f"another worker could not read `{wanted[0][0]}`: {told['error']}",
            hint="read variables while all workers are in the scope, or after all have left it",
        )
    values = [aligned_empty(shape, dtype) for _, shape, dtype in wanted]
    if told.get("sizes") != [value.nbytes for value in values]:
        raise ConnectionError("it has variables of other sizes")
    for value in values:
        if value.nbytes:
            _fill(connection, _bytes(value), until_s)
    return values


def _answer_in(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ConnectionError("its answer can't be read")
    return told


def _bytes(value: np.ndarray) -> memoryview:
    return value.reshape(-1).view(np.uint8).data


def _left_s(until_s: float | None) -> float | None:
    return None if until_s is None else max(0.01, until_s - time.monotonic())


def _send_message(connection: socket.socket, said: Any) -> None:
    content = json.dumps(said).encode()
    connection.sendall(_LENGTH.pack(len(content)) + content)


def _received_message(connection: socket.socket, until_s: float | None) -> bytes:
    (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size, until_s))
    if length > _LONGEST_BYTES:
        raise ConnectionError(f"a message of {length} bytes is announced")
    return _received(connection, length, until_s)


def _received(connection: socket.socket, size: int, until_s: float | None) -> bytes:
    found = bytearray(size)
    _fill(connection, memoryview(found), until_s)
    return bytes(found)


def _fill(connection: socket.socket, into: memoryview, until_s: float | None) -> None:
    while into:
        connection.settimeout(_left_s(until_s))
        count = connection.recv_into(into)
        if not count:
            raise ConnectionError("it has closed the connection")
        into = into[count:]
