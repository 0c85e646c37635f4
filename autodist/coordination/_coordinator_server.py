"""The coordinator that a launcher hosts: an authenticated key-value and barrier server for the workers of one run.

Threads wait on one condition; a run has at most a few hundred workers and a request is rare, so nothing finer pays.
"""

from __future__ import annotations

import hmac
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from autodist.coordination._certificate import Certificate
from autodist.coordination._coordinator_client import MAX_VALUE_BYTES, TOKEN_HEADER, Status
from autodist.coordination._failure_note import FailureNote
from autodist.transport import HttpServer

_CONNECTION_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Progress:
    """How far a worker is.

    Attributes:
        steps: Training steps taken.
        in_step: True while it waits for other workers in a step or for one, False between steps, None when unknown.
        changed_s: ``time.monotonic()`` at which the number of steps last changed.
        pace_s: How long each of the steps took that were reported last; 0 before there are some.
        heard_s: ``time.monotonic()`` at which the worker last said how far it is, which it does every few seconds.
    """

    steps: int
    in_step: bool | None
    changed_s: float
    pace_s: float = 0.0
    heard_s: float = math.inf


class _Answer(Exception):
    """Ends a request with a status other than OK."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class RunAborted(_Answer):
    """The run is over for the workers: they get nothing more."""


@dataclass
class _Barrier:
    arrived: dict[int, str] = field(default_factory=dict)  # by rank, which of its calls it is
    passed: dict[int, str] = field(default_factory=dict)  # the same for the last time that all had come
    generation: int = 0
    broken: str = ""


class CoordinatorServer:
    """Hosts the values and barriers of one run, on the loopback; closes without waiting for clients.

    Args:
        world_size: Workers that a barrier waits for.
        token: The secret that every request must carry.
        on_fail: Called with rank and note when a worker reports its failure, in its request's thread.
        certificate: By which clients know the server, and what they send is encrypted; None for none.

    Example:
        >>> with CoordinatorServer(world_size=2, token="secret") as server:
        ...     server.port > 0
        True
    """

    def __init__(
        self,
        world_size: int,
        token: str,
        on_fail: Callable[[int, FailureNote], None] | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.world_size = world_size
        self._token = token.encode()
        self._on_fail = on_fail
        self._changed = threading.Condition()
        self._values: dict[str, bytes] = {}
        self._barriers: dict[str, _Barrier] = {}
        self._progress: dict[int, Progress] = {}
        self._aborted = ""
        self._interruption = ""
        self._ending = threading.Condition()  # of its own: all workers wait here all the time
        self.address = "127.0.0.1"
        self._http = _HttpServer((self.address, 0), self, certificate)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="coordinator", daemon=True)

    def __enter__(self) -> CoordinatorServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort("the launcher has ended")
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def abort(self, message: str) -> None:
        """End all waits of clients, and those to come, with this message; only the first call counts."""
        with self._changed:
            self._aborted = self._aborted or message
            self._changed.notify_all()
        with self._ending:
            self._ending.notify_all()

    def interrupt(self, signal_name: str) -> None:
        """Tell all workers that the run is to end, and by which signal."""
        with self._ending:
            self._interruption = signal_name
            self._ending.notify_all()

    def interruption(self, timeout_s: float) -> str:
        """Wait until the run is to end."""
        with self._ending:
            self._ending.wait_for(lambda: bool(self._aborted or self._interruption), timeout_s)
            self._raise_if_aborted()
            if not self._interruption:
                raise _Answer(Status.TIMED_OUT, f"nobody wanted the run to end within {timeout_s:g} s")
            return self._interruption

    @property
    def is_aborted(self) -> bool:
        """Whether the run is over for the workers."""
        return bool(self._aborted)

    def progress(self) -> dict[int, Progress]:
        """Return what each worker last reported; a rank is missing until its first report."""
        with self._changed:
            return dict(self._progress)

    def put(self, key: str, value: bytes) -> None:
        """Set a value for all workers."""
        with self._changed:
            self._raise_if_aborted()
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for a value."""
        with self._changed:
            if not self._wait(lambda: key in self._values, timeout_s):
                raise _Answer(Status.TIMED_OUT, f"no worker has put `{key}` within {timeout_s:g} s")
            return self._values[key]

    def peek(self, key: str) -> bytes | None:
        """Return a value if a worker has put it."""
        with self._changed:
            return self._values.get(key)

    def wait_until(self, reached: Callable[[Mapping[str, bytes]], bool], timeout_s: float) -> bool:
        """Wait until the values are as wanted; False after the time, and when the run has ended before.

        Args:
            reached: Looks at all values, by key; called under the server's lock.
            timeout_s: Longest wait.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._aborted) or reached(self._values), timeout_s)
            return reached(self._values)

    def barrier(self, name: str, rank: int, timeout_s: float, call: str = "") -> None:
        """Wait until all ranks have arrived; ``call`` tells a call that is asked again from the next one."""
        with self._changed:
            self._raise_if_aborted()
            barrier = self._barriers.setdefault(name, _Barrier())
            if call and barrier.passed.get(rank) == call:
                return
            if barrier.broken:
                raise _Answer(Status.TIMED_OUT, barrier.broken)
            generation = barrier.generation
            self._arrive(barrier, rank, call)
            done = self._wait(lambda: barrier.broken or barrier.generation != generation, timeout_s)
            if barrier.generation != generation:
                return
            if not done:
                barrier.broken = f"barrier `{name}` timed out after {timeout_s:g} s: {self._missing(barrier)}"
                self._changed.notify_all()
            raise _Answer(Status.TIMED_OUT, barrier.broken)

    def fail(self, rank: int, note: FailureNote) -> None:
        """Note that a worker failed and end everyone's waits."""
        if self._on_fail is not None:
            self._on_fail(rank, note)
        summary = note.message.partition("\n")[0]
        self.abort(f"the run was stopped because worker {rank} failed: {summary}")

    def note_progress(self, rank: int, steps: int, in_step: bool | None) -> None:
        """Keep a worker's report."""
        with self._changed:
            known, now_s = self._progress.get(rank), time.monotonic()
            if known is not None and known.steps == steps:
                self._progress[rank] = replace(known, in_step=in_step, heard_s=now_s)
                return
            has_pace = known is not None and 0 < known.steps < steps
            pace_s = (now_s - known.changed_s) / (steps - known.steps) if known is not None and has_pace else 0.0
            self._progress[rank] = Progress(steps, in_step, now_s, pace_s, now_s)

    def is_token(self, token: str) -> bool:
        """Whether a request may be answered; takes the same time for every wrong token."""
        return hmac.compare_digest(token.encode(errors="replace"), self._token)

    def _arrive(self, barrier: _Barrier, rank: int, call: str) -> None:
        barrier.arrived[rank] = call
        if len(barrier.arrived) >= self.world_size:
            barrier.passed, barrier.arrived = barrier.arrived, {}
            barrier.generation += 1
            self._changed.notify_all()

    def _missing(self, barrier: _Barrier) -> str:
        ranks = [str(rank) for rank in range(self.world_size) if rank not in barrier.arrived]
        noun = "worker" if len(ranks) == 1 else "workers"
        return f"{noun} {', '.join(ranks)} of {self.world_size} did not come"

    def _wait(self, reached: Callable[[], object], timeout_s: float) -> bool:
        """Wait on the condition, which is held; an abort ends the wait with an error."""
        done = self._changed.wait_for(lambda: bool(self._aborted or reached()), timeout_s)
        if not reached():
            self._raise_if_aborted()
        return done

    def _raise_if_aborted(self) -> None:
        if self._aborted:
            raise RunAborted(Status.ABORTED, self._aborted)


class _HttpServer(HttpServer):
    def __init__(
        self, address: tuple[str, int], coordinator: CoordinatorServer, certificate: Certificate | None
    ) -> None:
        super().__init__(address, _Handler, None if certificate is None else certificate.context)
        self.coordinator = coordinator


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    timeout = _CONNECTION_TIMEOUT_S
    server_version = "autodist"

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request: their paths may name what the user trains."""

    def _answer(self) -> None:
        try:
            status, content = Status.OK, self._dispatch()
        except _Answer as answer:
            status, content = answer.status, answer.text.encode()
        except (ValueError, KeyError, TypeError) as error:
            status, content = 400, f"a malformed request: {error!r}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _dispatch(self) -> bytes:
        coordinator = self.server.coordinator
        if not coordinator.is_token(self.headers.get(TOKEN_HEADER, "")):
            raise _Answer(Status.REFUSED, "the coordinator refuses this token")
        self.server.let_stay(self.connection)
        body = self._body()
        target = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(target.query).items()}
        kind, _, name = target.path.lstrip("/").partition("/")
        return _serve(coordinator, f"{self.command} {kind}", unquote(name), query, body)

    def _body(self) -> bytes:
        size = int(self.headers.get("Content-Length", 0))
        if not 0 <= size <= MAX_VALUE_BYTES:
            self.close_connection = True
            raise _Answer(Status.TOO_LARGE, f"{size} bytes, the coordinator takes at most {MAX_VALUE_BYTES}")
        body = self.rfile.read(size)
        if len(body) < size:  # the client has ended meanwhile: part of a value does not count
            raise ConnectionAbortedError("the body ends early")
        return body


def _serve(server: CoordinatorServer, action: str, name: str, query: dict[str, str], body: bytes) -> bytes:
    """Carry out one authenticated request."""
    rank = int(query["rank"])
    if action == "GET values":
        return server.get(name, float(query["timeout_s"]))
    if action == "GET interruption":
        return server.interruption(float(query["timeout_s"])).encode()
    if action == "GET clock":
        return repr(time.time()).encode()
    if action == "PUT values":
        server.put(name, body)
    elif action == "POST barriers":
        server.barrier(name, rank, float(query["timeout_s"]), query.get("call", ""))
    elif action == "POST fail":
        server.fail(rank, FailureNote.from_json(body.decode(errors="replace")))
    elif action == "POST progress":
        report = json.loads(body)
        server.note_progress(rank, int(report["steps"]), report["in_step"])
    else:
        raise _Answer(404, f"the coordinator knows no `{action}`")
    return b""
