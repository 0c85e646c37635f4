"""The launcher's end of the line to an agent."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from autodist.agent._processes import KILL_S
from autodist.agent._settings import Settings
from autodist.agent.client._agent_connection import AgentConnection
from autodist.agent.client._error_output import ErrorOutput
from autodist.agent.client._handshake import Handshake
from autodist.agent.client._sources import COMMAND, first_input
from autodist.agent.protocol import CHUNK_BYTES, Greeting, Stream, StreamReset, join
from autodist.errors import HostUnreachable, LaunchError, TimedOut
from autodist.remote import Machine, Transport

__all__ = ["Agent", "AgentEvents", "Fetched"]

_T = TypeVar("_T")

_CONNECT_S = 10.0
_MARGIN_S = 3.0  # beyond the agent's own bounds


class AgentEvents(Protocol):
    """Receives what happens on a machine; called in the event loop, so it must return at once and not raise."""

    def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """Take bytes that a worker wrote to standard output or standard error, in pieces as they came."""

    def exited(self, rank: int, exit_code: int | None, signal: str | None) -> None:
        """A worker has ended, by itself or by the name of a signal; what it wrote itself was delivered before.

        Processes that it had started may still be there and write. Once per spawned worker, unless the agent is lost.
        """

    def lost(self, machine: Machine, reason: str) -> None:
        """The agent is gone without having been closed; once. No other event follows.

        Its processes are ended by the agent itself, or by its guard, within the heartbeat and grace times.
        """


@dataclass(frozen=True)
class Fetched:
    """Files of the run's directory on a machine.

    Attributes:
        files: Content by path below the directory, with ``/`` between the parts.
        left_out: Paths of the files that would have exceeded the bounds, or could not be read.
    """

    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()


class Agent:
    """A program that holds workers on one machine; made by :meth:`start`.

    It ends its workers and all their descendants, and itself, when it is closed, when this process ends, when this
    process was silent for ``heartbeat_s``, and at TERM, HUP or INT: TERM to all of them, and KILL after the grace time.
    It never ends a process that does not descend from it.

    All methods are for the event loop that started it. Waits have bounds: those named ``timeout_s``, else the loss of
    the agent, which makes every pending call raise ``HostUnreachable``.

    Attributes:
        machine: Where it is.
        greeting: What it reports about itself.
    """

    def __init__(
        self, machine: Machine, greeting: Greeting, line: AgentConnection, events: AgentEvents, grace_s: float
    ) -> None:
        self.machine = machine
        self.greeting = greeting
        self._line = line
        self._events = events
        self._grace_s = grace_s
        self._next_stream = 1  # odd numbers are of this side
        self._relays: list[tuple[str, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ranks: set[int] = set()
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def start(
        cls,
        transport: Transport,
        machine: Machine,
        *,
        run_id: str,
        events: AgentEvents,
        heartbeat_s: float = 4.0,
        grace_s: float = 5.0,
        isolate: bool = False,
        timeout_s: float = 30.0,
        is_full: Callable[[], bool] = lambda: False,
    ) -> Agent:
        """Start an agent on a machine, where only Python has to be installed.

        Args:
            transport: How to reach the machine.
            machine: Where to; its ``python`` runs the agent.
            run_id: Names the run's directory there.
            events: Is told what happens.
            heartbeat_s: Longest silence after which either side takes the other for lost, > 0.
            grace_s: Time between TERM and KILL, >= 0.
            isolate: Whether to put the workers into a PID namespace of their own, where the agent may make one: the
                kernel then ends them even if both of the agent's processes are killed.
            timeout_s: Longest time until the agent has answered, > 0.
            is_full: Asked several times a second; while it is true, nothing is read from the agent, so that workers
                that write much have to wait. Events and answers wait as well.

        Raises:
            HostUnreachable: The machine can't be reached, has no such Python, an older one than 3.10, or says nothing
                in time. What it said instead is in the message.
        """
        settings = Settings(run_id, f"<autodist {secrets.token_hex(16)}>\n", heartbeat_s, grace_s, isolate)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        argv = [machine.interpreter, "-c", COMMAND]
        channel = await transport.open(machine, argv, timeout_s)
        channel.write(first_input(settings))
        complaints = ErrorOutput(channel)
        handshake = Handshake(machine, channel, complaints)
        greeting, rest = await handshake.greeting(settings.marker, deadline_s - loop.time(), timeout_s)
        line = AgentConnection(machine, channel, complaints, heartbeat_s, is_full)
        agent = cls(machine, greeting, line, events, grace_s)
        line.serve(rest, agent._take_event, agent._take_output, agent._note_loss)
        return agent

    @property
    def directory(self) -> str:
        """Path of the run's directory on the machine: private to the user, removed with the agent."""
        return self.greeting.directory

    async def call(self, function: str, *, timeout_s: float = 30.0, **arguments: Any) -> Any:
        """Run a function of the agent's own modules on the machine, in a thread, and return its result.

        Args:
            function: ``"facts.python"`` is the public function ``python`` of ``autodist/agent/machine/_facts.py``.
            timeout_s: Longest time, > 0.
            arguments: Keyword arguments; they and the result are what JSON can hold, at most 1 MB.

        Raises:
            TimedOut: It did not return in time.
            LaunchError: It raised; the message is that of its exception.
            HostUnreachable: The agent is lost.
        """
        return await self._line.ask("call", function=function, arguments=arguments, timeout_s=timeout_s)

    async def put(self, name: str, content: bytes, *, timeout_s: float = 300.0) -> str:
        """Write a file into the run's directory on the machine and return its path there.

        Args:
            name: Path below the directory, with ``/`` between the parts; directories are made.
            content: All of it; replaces a file of that name at once, not bit by bit.
            timeout_s: Longest time, > 0.

        Raises:
            TimedOut: It took longer.
            LaunchError: It can't be written there.
            HostUnreachable: The agent is lost.
        """
        return await self._bounded(self._put(name, content), timeout_s, f"writing `{name}`")

    async def _put(self, name: str, content: bytes) -> str:
        stream = self._open_stream()
        answer = self._line.ask("put", name=name, stream=stream.number)
        try:
            with contextlib.suppress(StreamReset):  # then the answer says why
                for begin in range(0, len(content), CHUNK_BYTES):
                    await stream.write(content[begin : begin + CHUNK_BYTES])
                stream.end()
            path: str = await answer
        finally:
            answer.cancel()
            stream.reset()
        return path

    async def fetch(
        self, below: str = "", *, most_files: int = 1000, most_bytes: int = 64 << 20, timeout_s: float = 300.0
    ) -> Fetched:
        """Return the files of the run's directory on the machine, in the order of their paths, up to the bounds.

        Args:
            below: A folder in it; then only its files, and their paths are those below it. It may be missing.
            most_files: How many at most.
            most_bytes: All of them together.
            timeout_s: Longest time, > 0.

        Raises:
            TimedOut: It took longer.
            HostUnreachable: The agent is lost.
        """
        bounds = {"most_files": most_files, "most_bytes": most_bytes}
        return await self._bounded(self._fetch(below, bounds), timeout_s, "fetching files")

    async def _fetch(self, below: str, bounds: dict[str, int]) -> Fetched:
        stream = self._open_stream()
        answer = self._line.ask("fetch", stream=stream.number, below=below, **bounds)
        stream.end()
        content = bytearray()
        try:
            with contextlib.suppress(StreamReset):  # then the answer says why
                while (data := await stream.read()) and len(content) <= bounds["most_bytes"]:
                    content += data
            told = await answer
        finally:
            answer.cancel()
            stream.reset()
        files: dict[str, bytes] = {}
        for name, size in told["files"]:
            files[name] = bytes(content[:size])
            del content[:size]
        return Fetched(files, tuple(told["left_out"]))

    async def relay(self, address: str, port: int) -> int:
        """Listen on the machine's loopback and join whatever connects there with ``address:port`` of this side.

        Returns:
            The port on ``127.0.0.1`` of the machine, chosen by its kernel.

        Raises:
            LaunchError: It can't listen.
            HostUnreachable: The agent is lost.
        """
        self._relays.append((address, port))
        here: int = await self._line.ask("relay", relay=len(self._relays) - 1)
        return here

    async def spawn(self, rank: int, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> int:
        """Start a worker and return its process id, as the machine numbers it.

        Its standard input is empty, it leads a session of its own, and it dies with the agent.

        Args:
            rank: The worker; a rank may be spawned again after it has exited.
            argv: Program and arguments.
            env: Variables over those of the agent, which has none of another run: what ``autodist run`` sets for a
                worker is not inherited. ``AUTODIST_LAUNCHER_PID`` is set by the agent, to what the worker sees as its
                parent.
            cwd: Working directory, made if missing; ``~`` is the home there.

        Raises:
            LaunchError: It can't be started; the message says whether program or directory is the reason.
            HostUnreachable: The agent is lost.
        """
        self._ranks.add(rank)
        try:
            pid: int = await self._line.ask("spawn", rank=rank, argv=list(argv), env=dict(env), cwd=cwd)
        except HostUnreachable:
            raise
        except LaunchError as error:
            message = f"worker {rank} can't be started {error.message}"
            raise LaunchError(
                message,
                hint="check `python` and `directory` of this host in the resource spec; `directory: ~/training` is "
                "below the login's home",
            ) from error
        return pid

    def signal(self, rank: int, signum: int, everything: bool = False) -> None:
        """Send a signal to a worker, or with ``everything`` to its descendants and its session too.

        Returns at once; a worker that has ended gets none. Requests reach the machine in the order in which they were
        made, so a ``stop`` that follows comes after the signal.
        """
        self._line.send_request("signal", rank=rank, signum=int(signum), everything=everything)

    async def check(self, within_s: float) -> None:
        """Have the machine answer that it is there; it is lost if it does not in time."""
        with contextlib.suppress(HostUnreachable, TimedOut):  # a machine that says it is late is alive
            try:
                await asyncio.wait_for(self.call("site.ping", timeout_s=within_s + _MARGIN_S), within_s)
            except asyncio.TimeoutError:
                self._line.give_up(f"it did not answer within {within_s:g} s when it was asked who had failed")

    async def stop(self, now: bool = False) -> tuple[int, ...]:
        """End all workers and all that descends from them; the agent stays and may spawn others.

        TERM first and KILL after the grace time, or KILL at once if ``now``; a second call with ``now`` while the first
        one waits cuts its grace short. All ``exited`` events have been delivered when it returns.

        Returns:
            Process ids that are left because not even KILL ends them; they hang in the kernel.

        Raises:
            HostUnreachable: The agent is lost.
        """
        left: list[int] = await self._line.ask("stop", now=now)
        return tuple(left)

    async def close(self) -> None:
        """Stop everything, remove the run's directory, end the agent and close the channel; never fails.

        Takes the grace time and a few seconds at most. If the connection still exists, wait for the guard of a lost
        agent; otherwise wait for nothing.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        longest_s = self._grace_s + KILL_S + _MARGIN_S
        self._line.send_request("close")
        await self._line.ended(longest_s)
        for task in self._tasks:
            task.cancel()
        await self._line.close(longest_s)

    async def _bounded(self, work: Coroutine[Any, Any, _T], timeout_s: float, what: str) -> _T:
        try:
            return await asyncio.wait_for(work, timeout_s)
        except asyncio.TimeoutError:
            raise TimedOut(f"{what} on `{self.machine}` took longer than {timeout_s:g} s") from None

    def _open_stream(self) -> Stream:
        number = self._next_stream
        self._next_stream += 2
        return self._line.streams.open(number)

    # --- what comes by itself

    def _take_event(self, event: dict[str, Any]) -> None:
        if event["event"] == "exited" and event["rank"] in self._ranks:
            self._events.exited(event["rank"], event["exit_code"], event["signal"])
        elif event["event"] == "connected":
            stream = self._line.streams.open(event["stream"])
            task = asyncio.ensure_future(self._connect(stream, *self._relays[event["relay"]]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take_output(self, number: int, data: bytes) -> None:
        if number // 2 in self._ranks:
            self._events.output(number // 2, bool(number % 2), data)

    def _note_loss(self, reason: str) -> None:
        if self._closing is None:
            self._events.lost(self.machine, reason)

    async def _connect(self, stream: Stream, address: str, port: int) -> None:
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_S)
        except (OSError, asyncio.TimeoutError):
            stream.reset()
            return
        await join(reader, writer, stream)
