"""The launcher's end of the line to an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autodist.agent._greeting import Greeting
from autodist.remote import Machine, Transport

__all__ = ["Agent", "AgentEvents", "Fetched"]


class AgentEvents(Protocol):
    """Who is told what happens on a machine; called in the event loop, so it must return at once and not raise."""

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

    It ends its workers and all their descendants, and itself, when it is closed, when this process ends, when nothing
    was heard of it for ``heartbeat_s``, and when it is told to by TERM, HUP or INT: TERM to all of them, and KILL after
    the grace time. It never ends a process that does not descend from it.

    All methods are for the event loop that started it. Waits have bounds: those named ``timeout_s``, else the loss of
    the agent, which makes every pending call raise ``HostUnreachable``.

    Attributes:
        machine: Where it is.
        greeting: What it says of itself.

    """

    machine: Machine
    greeting: Greeting

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
    ) -> Agent:
        """Start an agent on a machine; nothing needs to be installed there beside Python.

        Args:
            transport: The road to the machine.
            machine: Where to; its ``python`` runs the agent.
            run_id: Names the run's directory there.
            events: Is told what happens.
            heartbeat_s: Longest silence after which either side takes the other for lost, > 0.
            grace_s: Time between TERM and KILL, >= 0.
            isolate: Whether to put the workers into a PID namespace of their own, where the agent may make one: the
                kernel then ends them even if both of the agent's processes are killed.
            timeout_s: Longest time until the agent has answered, > 0.

        Raises:
            HostUnreachable: The machine can't be reached, has no such Python, an older one than 3.10, or says nothing
                in time. What it said instead is in the message.

        """
        raise NotImplementedError

    @property
    def directory(self) -> str:
        """Path of the run's directory on the machine: private to the user, removed with the agent."""
        return self.greeting.directory

    async def call(self, function: str, *, timeout_s: float = 30.0, **arguments: Any) -> Any:
        """Run a function of the agent's own modules on the machine, in a thread, and return its result.

        Args:
            function: ``"facts.python"`` is the public function ``python`` of ``autodist/agent/_facts.py``.
            timeout_s: Longest time, > 0.
            arguments: Keyword arguments; they and the result are what JSON can hold, at most 1 MB.

        Raises:
            TimedOut: It did not return in time.
            LaunchError: It raised; the message is that of its exception.
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    async def put(self, name: str, content: bytes) -> str:
        """Write a file into the run's directory on the machine and return its path there.

        Args:
            name: Path below the directory, with ``/`` between the parts; directories are made.
            content: All of it; replaces a file of that name at once, not bit by bit.

        Raises:
            LaunchError: It can't be written there.
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    async def fetch(self, *, most_files: int = 1000, most_bytes: int = 64 << 20) -> Fetched:
        """Return the files of the run's directory on the machine, in the order of their paths, up to the bounds.

        Raises:
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    async def relay(self, address: str, port: int) -> int:
        """Listen on the machine's loopback and join whatever connects there with ``address:port`` of this side.

        Returns:
            The port on ``127.0.0.1`` of the machine, chosen by its kernel.

        Raises:
            LaunchError: It can't listen.
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    async def spawn(self, rank: int, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> int:
        """Start a worker and return its process id, as the machine numbers it.

        Its standard input is empty, it leads a session of its own, and it dies with the agent.

        Args:
            rank: The worker; a rank may be spawned anew after it has exited.
            argv: Program and arguments.
            env: Variables over those of the agent, which has none of another run: what ``autodist run`` sets for a
                worker is not inherited. ``AUTODIST_LAUNCHER_PID`` is set by the agent, to what the worker sees as its
                parent.
            cwd: Working directory, made if missing; ``~`` is the home there.

        Raises:
            LaunchError: It can't be started; the message says whether program or directory is the reason.
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    def signal(self, rank: int, signum: int, everything: bool = False) -> None:
        """Send a signal to a worker, or with ``everything`` to its descendants and its session too.

        Returns at once; a worker that has ended gets none. Requests reach the machine in the order in which they were
        made, so a ``stop`` that follows comes after the signal.
        """
        raise NotImplementedError

    async def stop(self, now: bool = False) -> tuple[int, ...]:
        """End all workers and all that descends from them; the agent stays and may spawn others.

        TERM first and KILL after the grace time, or KILL at once if ``now``; a second call with ``now`` while the first
        one waits cuts its grace short. All ``exited`` events have been delivered when it returns.

        Returns:
            Process ids that are left because not even KILL ends them; they hang in the kernel.

        Raises:
            HostUnreachable: The agent is lost.

        """
        raise NotImplementedError

    async def close(self) -> None:
        """Stop everything, remove the run's directory, end the agent and close the channel; never fails.

        Takes the grace time and a few seconds at most. Does nothing on an agent that is lost or closed.
        """
        raise NotImplementedError
