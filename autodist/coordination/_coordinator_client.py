"""A worker's line to the coordinator: small values and barriers between the workers of one run.

Bytes over HTTP, or HTTPS in a run that encrypts, on the launcher's address. Nothing is ever unpickled, and every
request carries the run's token.
"""

from __future__ import annotations

# Names of hosts are encoded by this. If two threads need it first at the same moment, one may find it half imported,
# and the process then never has it (python/cpython#73474): so it is there before there are threads.
import encodings.idna  # noqa: F401
import http.client
import json
import ssl
import time
import uuid
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from autodist.coordination._certificate import trusting
from autodist.coordination._failure_note import FailureNote
from autodist.coordination._worker_environment import WorkerEnvironment
from autodist.errors import AutoDistError, LaunchError, TimedOut, UsageError, WorkerFailed

MAX_VALUE_BYTES = 64 * 2**20
TOKEN_HEADER = "X-AutoDist-Token"
_TRANSFER_MARGIN_S = 30.0  # on top of the wait itself: the bytes, and a loaded machine
_ATTEMPTS = 3
_UNANSWERED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, http.client.IncompleteRead)
"""How a connection ends that the other side has closed, for example because it took this one for a stranger."""


class Status:
    """HTTP status codes with the coordinator's meanings."""

    OK = 200
    REFUSED = 403
    TIMED_OUT = 408
    ABORTED = 409
    TOO_LARGE = 413


@dataclass(frozen=True)
class CoordinatorClient:
    """Values and barriers shared by the workers of one run; usable from several threads.

    Args:
        address: Where the coordinator listens.
        port: Its port.
        token: The run's secret.
        rank: The worker that asks.
        certificate: By which the coordinator is known, and requests are encrypted; empty for none.

    Example:
        >>> client.put("strategy", b"{}")                    # doctest: +SKIP
        >>> client.get("strategy", timeout_s=60.0)           # doctest: +SKIP
        b'{}'
        >>> client.barrier("ready", timeout_s=60.0)          # doctest: +SKIP
    """

    address: str
    port: int
    token: str = field(repr=False)
    rank: int
    certificate: str = field(default="", repr=False)

    @classmethod
    def of(cls, environment: WorkerEnvironment) -> CoordinatorClient:
        """Return the client for a worker with this environment."""
        here = environment
        return cls(here.master_addr, here.master_port, here.token, here.rank, here.certificate)

    def put(self, key: str, value: bytes) -> None:
        """Set ``key`` for all workers, over what it held before.

        Raises:
            UsageError: More than 64 MB.
            WorkerFailed: The run has failed.
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        if len(value) > MAX_VALUE_BYTES:
            raise UsageError(
                f"the value of `{key}` has {len(value)} bytes, the coordinator takes at most {MAX_VALUE_BYTES}",
                hint="put large data into a file and share its path",
            )
        self._request("PUT", f"/values/{quote(key, safe='')}", {}, value)

    def get(self, key: str, timeout_s: float) -> bytes:
        """Return the value of ``key``; waits until a worker has put one.

        Raises:
            TimedOut: No worker put it within ``timeout_s`` seconds.
            WorkerFailed: The run has failed, before or during the wait.
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        return self._request("GET", f"/values/{quote(key, safe='')}", {"timeout_s": timeout_s}, wait_s=timeout_s)

    def barrier(self, name: str, timeout_s: float) -> None:
        """Wait until all workers have come to the barrier ``name``; it can be used again afterwards.

        Once a wait at it has timed out, the barrier stays broken: later calls get the same error at once.

        Raises:
            TimedOut: A worker did not come; the error names all that are missing.
            WorkerFailed: The run has failed, before or during the wait.
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        query = {"timeout_s": timeout_s, "call": uuid.uuid4().hex}
        self._request("POST", f"/barriers/{quote(name, safe='')}", query, wait_s=timeout_s)

    def interruption(self, timeout_s: float) -> str:
        """Wait until the run should end; returns the name of the signal that says so.

        Raises:
            TimedOut: The run was not to end within ``timeout_s`` seconds.
            WorkerFailed: The run has failed.
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        return self._request("GET", "/interruption", {"timeout_s": timeout_s}, wait_s=timeout_s).decode()

    def fail(self, note: FailureNote) -> None:
        """Tell the launcher that this worker has failed, and how; waits of the other workers end with an error.

        Never raises: it is called by a worker that has an error of its own to show.
        """
        try:
            self._request("POST", "/fail", {}, note.to_json().encode())
        except AutoDistError:
            return

    def report(self, steps_taken: int, in_step: bool | None) -> None:
        """Tell the launcher how far this worker is.

        Raises:
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        progress = json.dumps({"steps": steps_taken, "in_step": in_step}).encode()
        self._request("POST", "/progress", {}, progress)

    def clock_s(self) -> float:
        """The launcher's clock, in seconds as of ``time.time()``.

        Raises:
            LaunchError: The coordinator can't be reached or refuses the token.
        """
        return float(self._request("GET", "/clock", {}))

    def _request(
        self, method: str, path: str, query: dict[str, object], body: bytes = b"", wait_s: float = 0.0
    ) -> bytes:
        """Ask, and ask again where no answer comes: what is asked for can be done twice."""
        target = f"{path}?{urlencode({'rank': self.rank, **query})}"
        began = time.monotonic()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                status, content = self._answer(method, target, body, wait_s)
                break
            except (OSError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS or not isinstance(error, _UNANSWERED):
                    raise self._unreachable(error, time.monotonic() - began) from error
        if status != Status.OK:
            raise _refusal(status, content.decode(errors="replace"))
        return content

    def _answer(self, method: str, target: str, body: bytes, wait_s: float) -> tuple[int, bytes]:
        connection = self._connection(wait_s + _TRANSFER_MARGIN_S)
        try:
            connection.request(method, target, body, {TOKEN_HEADER: self.token})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if not self.certificate:
            return http.client.HTTPConnection(self.address, self.port, timeout=timeout_s)
        context = trusting(self.certificate)
        return http.client.HTTPSConnection(self.address, self.port, timeout=timeout_s, context=context)

    def _unreachable(self, error: Exception, after_s: float) -> LaunchError:
        return LaunchError(
            f"worker {self.rank} lost the coordinator at {self.address}:{self.port} after {after_s:.1f} s: {error}",
            hint="the launcher has ended, or a firewall is in the way; look at the launcher's console",
        )


def _refusal(status: int, text: str) -> AutoDistError:
    """Return the error that a status other than OK means."""
    if status == Status.TIMED_OUT:
        return TimedOut(text, hint="look at the logs of the missing workers; raise the timeout if they are only slow")
    if status == Status.ABORTED:
        return WorkerFailed(text, hint="this worker was stopped; the first error is in the other worker's log")
    if status == Status.REFUSED:
        return LaunchError(text, hint="`AUTODIST_TOKEN` is not that of this run; start workers by `autodist run` only")
    if status == Status.TOO_LARGE:
        return UsageError(text)
    return LaunchError(f"the coordinator answered {status}: {text}")
