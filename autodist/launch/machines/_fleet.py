"""The machines of a run, with an agent on each that holds its workers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from autodist.agent import Agent
from autodist.errors import AutoDistError, HostUnreachable, LaunchError
from autodist.launch._base import WorkerCommand
from autodist.launch._gang import Event, Exited, ExitStatus, Lost, StartedWorker
from autodist.launch._loop import LoopThread
from autodist.launch._signal_queue import SignalQueue
from autodist.launch._worker_output import OutputPump
from autodist.launch.machines._machines import is_here
from autodist.remote import LocalTransport, Machine, Transport

T = TypeVar("T")

_MOST_AT_ONCE = 16  # handshakes; each of them costs CPU on this side
_BLAME_S = 3.0  # for a sign of life once something has failed; a machine that gives none is lost
_CLOSE_S = 20.0  # on top of the grace time
_LOCAL_HEARTBEAT_S = 3600.0  # this machine notices the launcher's end by itself, and a suspended launcher is not lost


class Fleet:
    """Agents on all machines, and the workers that they hold.

    Methods named ``async`` are for the loop's thread; all others are for the launcher's, and return at once, except for
    :meth:`close`.

    Args:
        loop: Where the connections live.
        machines: With the ranks of their workers.
        events: Where what happens is put.
        pump: Takes what workers write.
        grace_s: Between TERM and KILL.
        heartbeat_s: Longest silence of another machine.
    """

    def __init__(
        self,
        loop: LoopThread,
        machines: Mapping[Machine, tuple[int, ...]],
        events: SignalQueue[Event],
        pump: OutputPump,
        *,
        grace_s: float,
        heartbeat_s: float,
    ) -> None:
        self._loop = loop
        self.machines = dict(machines)
        self._events = events
        self._pump = pump
        self._grace_s = grace_s
        self._heartbeat_s = heartbeat_s
        self._by_rank = {rank: machine for machine, ranks in machines.items() for rank in ranks}
        self._transports: list[Transport] = []
        self._lost: set[Machine] = set()
        self._workers: dict[int, StartedWorker] = {}
        self._are_released = False
        self._checks: list[concurrent.futures.Future[Any]] = []
        self._stops: dict[Machine, list[concurrent.futures.Future[tuple[int, ...]]]] = {}
        self.agents: dict[Machine, Agent] = {}

    # --- start

    async def connect(self, remote: Callable[[], Transport], run_id: str, timeout_s: float) -> None:
        """Start an agent on every machine.

        Args:
            remote: Makes the way to other machines, if there are any.
            run_id: Identifier of the run.
            timeout_s: Longest time for each machine.

        Raises:
            HostUnreachable: Some machines can't be reached; all of them are listed, each with its remedy.
        """
        here = LocalTransport()
        there = here if all(map(is_here, self.machines)) else remote()
        self._transports = [here] if there is here else [here, there]
        room = asyncio.Semaphore(_MOST_AT_ONCE)

        async def start(machine: Machine) -> None:
            is_local = is_here(machine)
            async with room:
                self.agents[machine] = await Agent.start(
                    here if is_local else there,
                    machine,
                    run_id=run_id,
                    events=self,
                    heartbeat_s=_LOCAL_HEARTBEAT_S if is_local else self._heartbeat_s,
                    grace_s=self._grace_s,
                    isolate=not is_local,
                    timeout_s=timeout_s,
                    is_full=self._is_full,
                )

        raise_all(await self._on_all(start))
        self.agents = {machine: self.agents[machine] for machine in self.machines}  # not in the order of their answers

    def _is_full(self) -> bool:
        """Whether workers should wait, because the reader is slow or gone; ends must not wait for that."""
        return self._pump.is_full and not self._are_released

    async def spawn(self, commands: Sequence[WorkerCommand]) -> None:
        """Start all workers.

        Raises:
            LaunchError: Some can't be started; all of them are listed.
        """

        async def start(machine: Machine) -> None:
            for command in (commands[rank] for rank in self.machines[machine]):
                await self._start(self.agents[machine], command)

        raise_all(await self._on_all(start))

    async def _start(self, agent: Agent, command: WorkerCommand) -> None:
        try:
            pid = await agent.spawn(command.rank, command.argv, command.env, command.directory)
        except HostUnreachable:
            raise
        except LaunchError as error:
            # Several hosts of a spec may be on one machine.
            message = error.message.replace(f"on `{agent.machine}`", f"on `{command.host}`", 1)
            raise LaunchError(message, hint=error.hint) from error
        self._workers[command.rank] = StartedWorker(command.rank, command.host, pid)

    async def on_agents(self, work: Callable[[Machine, Agent], Coroutine[Any, Any, T]]) -> dict[Machine, T]:
        """Do something on every machine at the same time.

        Raises:
            AutoDistError: It failed on some; all of them are listed.
        """
        results = await self._on_all(lambda machine: work(machine, self.agents[machine]))
        raise_all(results)
        return {machine: result for machine, result in results.items() if not isinstance(result, BaseException)}

    async def on_present(
        self, work: Callable[[Machine, Agent], Coroutine[Any, Any, T]]
    ) -> dict[Machine, T | BaseException]:
        """Do something on every machine that is not lost; returns the errors, too."""
        present = self._present()
        results = await asyncio.gather(*(work(*machine) for machine in present), return_exceptions=True)
        return {machine: result for (machine, _), result in zip(present, results, strict=True)}

    async def _on_all(self, work: Callable[[Machine], Coroutine[Any, Any, T]]) -> dict[Machine, T | BaseException]:
        tasks = [asyncio.ensure_future(work(machine)) for machine in self.machines]
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        except asyncio.CancelledError:
            # What is being started must have an end, so that nothing of it is left.
            await asyncio.wait(tasks)
            raise
        return dict(zip(self.machines, results, strict=True))

    # --- what agents tell

    def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """Hand on what a worker wrote."""
        self._pump.feed(rank, data, is_error)

    def exited(self, rank: int, exit_code: int | None, signal: str | None) -> None:
        """Hand on how a worker ended."""
        self._events.put(Exited(rank, ExitStatus(exit_code, signal)))

    def lost(self, machine: Machine, reason: str) -> None:
        """Hand on which workers can't be reached any more."""
        self._lost.add(machine)
        self._events.put(Lost(self.machines[machine], reason))

    # --- the gang

    @property
    def workers(self) -> list[StartedWorker]:
        """All that were started, by rank."""
        return [self._workers[rank] for rank in sorted(self._workers)]

    def signal(self, rank: int, signum: signal.Signals) -> None:
        """Send a signal to a worker alone."""
        agent = self.agents[self._by_rank[rank]]
        self._loop.start(_calmly(lambda: agent.signal(rank, signum)))

    def release(self) -> None:
        """Let workers write what they have, even if nothing reads it."""
        self._are_released = True

    def check_machines(self) -> None:
        """Ask the other machines for a sign of life."""
        others = [agent for machine, agent in self._present() if not is_here(machine)]
        within_s = min(_BLAME_S, self._heartbeat_s)
        self._checks = [self._loop.start(agent.check(within_s)) for agent in others]

    @property
    def is_checked(self) -> bool:
        """Whether all have given it, or did not in time."""
        return all(check.done() for check in self._checks)

    def stop(self, now: bool = False) -> None:
        """End all workers."""
        self.release()
        for machine, agent in self._present():
            self._stops.setdefault(machine, []).append(self._loop.start(agent.stop(now)))

    @property
    def is_gone(self) -> bool:
        """Whether a stop has been completed on all machines that are not lost."""
        return all(any(stop.done() for stop in self._stops.get(machine, ())) for machine, _ in self._present())

    @property
    def num_left(self) -> int:
        """Processes that not even KILL has ended."""
        done = [stop for stops in self._stops.values() for stop in stops[-1:] if stop.done()]
        return sum(len(stop.result()) for stop in done if stop.exception() is None)

    def _present(self) -> list[tuple[Machine, Agent]]:
        return [(machine, agent) for machine, agent in self.agents.items() if machine not in self._lost]

    # --- end

    def close(self) -> None:
        """End everything that is left, and all agents; takes the grace time and some seconds at most."""
        with contextlib.suppress(concurrent.futures.TimeoutError):
            self._loop.start(self._close()).result(self._grace_s + _CLOSE_S)

    async def _close(self) -> None:
        await asyncio.gather(*(agent.close() for agent in self.agents.values()), return_exceptions=True)
        await asyncio.gather(*(transport.close() for transport in self._transports), return_exceptions=True)


async def _calmly(work: Callable[[], None]) -> None:
    work()


def raise_all(results: Mapping[Machine, Any]) -> None:
    """Raise what went wrong on machines as one error.

    Raises:
        AutoDistError: Something did; lists all, each with its remedy.
    """
    errors = [result for result in results.values() if isinstance(result, BaseException)]
    told = [error for error in errors if isinstance(error, AutoDistError)]
    for error in errors:
        if error not in told:
            raise error  # a mistake of ours
    if len(told) == 1:
        raise told[0]
    if told:
        raise _joined(told, len(results))


def _joined(errors: Sequence[AutoDistError], num_machines: int) -> AutoDistError:
    messages = dict.fromkeys(error.message for error in errors)
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    title = f"{len(errors)} of {num_machines} machines have a problem"
    return LaunchError("\n".join([title, *(f"  {message}" for message in messages)]), hint="\n      ".join(hints))
