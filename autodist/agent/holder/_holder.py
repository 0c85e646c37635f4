"""The agent's second process: parent of the workers, with the line to the launcher; runs on the machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import platform
import pwd
import signal
import socket
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

from autodist.agent._processes import Ending, become_subreaper, children_ended
from autodist.agent._settings import Settings
from autodist.agent.holder._agent_requests import Requests
from autodist.agent.holder._descriptors import DescriptorWriter, read_some
from autodist.agent.holder._directory import remove_abandoned
from autodist.agent.holder._isolation import mount_proc
from autodist.agent.holder._prepared_place import PreparedPlace
from autodist.agent.holder._workers import Worker
from autodist.agent.protocol import Decoder, Frame, FrameError, Greeting, Kind, Streams, encode, encode_json

__all__ = ["main"]

_READ_BYTES = 1 << 18
_LAST_WORDS_S = 1.0
_SECOND_LOOK_S = 0.5
_GUARD_KILLED = "the agent's first process was killed"
_REAP_AFTER_S = 2.0  # a call that waits for its own child has done so by then


def main(settings: Settings, place: PreparedPlace, guard: socket.socket) -> NoReturn:
    """Be the holder, for the rest of this process' life."""
    become_subreaper("autodist-holder")
    outside = mount_proc() if place.is_isolated else -1
    is_orderly = asyncio.run(Holder(settings, place, guard, outside).run())
    os._exit(0 if is_orderly else 1)


class Holder:
    """Holds the workers of one machine until the launcher has closed it or is gone.

    Args:
        settings: How to behave.
        place: What the guard has prepared.
        guard: The line to it.
        outside: Descriptor of the ``/proc`` outside the namespace; -1 if there is none.
    """

    def __init__(self, settings: Settings, place: PreparedPlace, guard: socket.socket, outside: int) -> None:
        self.settings = settings
        self.place = place
        self.outside = outside
        self.workers: dict[int, Worker] = {}
        self._guard = guard
        self._guard_is_gone = False
        self._heard_s = 0.0
        self._is_reaping = False
        self._ending: Ending | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> bool:
        """Greet, serve until the end, end everything; whether the launcher wanted it so."""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.writer = DescriptorWriter(1, lambda: self.finish("the launcher reads no more"))
        self.streams = Streams(self.writer.write, self.writer.drain)
        self._requests = Requests(self)
        self._watch_signals()
        self._greet()
        for serving in (
            self._serve(),
            self._watch_guard(),
            self._watch_launcher(),
            asyncio.to_thread(remove_abandoned),
        ):
            self.run_task(serving)
        reason = await self._over
        if reason:
            self.event("ending", reason=reason)  # before workers end by it: else their ends look like the cause
        await self.stop(now=False)
        self.event("ended", reason=reason)
        await self.writer.flush(_LAST_WORDS_S)
        if self._guard_is_gone:
            self.place.directory.remove()
        return not reason

    def finish(self, reason: str) -> None:
        """End the agent; an empty reason means that the launcher asked for it."""
        if not self._over.done():
            self._over.set_result(reason)

    def run_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something alongside; a mistake in it ends the agent rather than being lost."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def event(self, name: str, **content: Any) -> None:
        """Tell the launcher something."""
        self.writer.write(encode_json(Kind.EVENT, 0, {"event": name, **content}))

    async def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """Pass on what a worker wrote; waits while the launcher is slow."""
        await self.writer.drain()
        self.writer.write(encode(Kind.OUTPUT, 2 * rank + is_error, data))

    def exited(self, rank: int, exit_code: int | None, signal_name: str | None) -> None:
        """Pass on how a worker ended."""
        self.event("exited", rank=rank, exit_code=exit_code, signal=signal_name)

    async def stop(self, now: bool) -> tuple[int, ...]:
        """End all descendants and return those that are left; a second call with ``now`` hurries the first."""
        grace_s = 0.0 if now else self.settings.grace_s
        ending = self._ending = self._ending or Ending(os.getpid(), grace_s)
        if now:
            ending.hurry()
        while (pause_s := ending.step()) is not None:
            await asyncio.sleep(pause_s)
            self._reap_known()
        self._ending = None
        reports = [asyncio.ensure_future(worker.reported()) for worker in self.workers.values()]
        if reports:
            await asyncio.wait(reports, timeout=None if not self._over.done() else _LAST_WORDS_S)
        return ending.left

    def _greet(self) -> None:
        greeting = Greeting(
            python=platform.python_version(),
            executable=sys.executable,
            host_name=socket.gethostname(),
            user=_user(),
            home=os.path.expanduser("~"),
            guard_pid=self.place.guard_pid,
            holder_pid=int(os.readlink("self", dir_fd=self.outside)) if self.outside >= 0 else os.getpid(),
            directory=str(self.place.directory.path),
            is_isolated=self.place.is_isolated,
            not_isolated_because=self.place.obstacle,
        )
        self.writer.write(self.settings.marker.encode() + json.dumps(dataclasses.asdict(greeting)).encode() + b"\n")

    # --- whom it watches

    async def _serve(self) -> None:
        """Take what the launcher sends until it sends no more."""
        os.set_blocking(0, False)
        decoder = Decoder()
        try:
            while data := await read_some(0, _READ_BYTES):
                self._heard_s = asyncio.get_running_loop().time()
                for frame in decoder.feed(data):
                    self._take(frame)
        except FrameError as error:
            self.finish(f"the launcher sent nonsense: {error}")
        # A login's end closes both lines at once, and this one may be looked at first.
        self.finish(_GUARD_KILLED if self._has_lost_guard() else "the launcher is gone")

    def _has_lost_guard(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            return self._guard.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        return False

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.BEAT:
            if not self.writer.is_congested:  # else the launcher gets enough bytes anyway
                self.writer.write(encode(Kind.BEAT))
            with contextlib.suppress(OSError):
                self._guard.send(b"\0", socket.MSG_DONTWAIT)
        elif frame.kind is Kind.REQUEST:
            self._requests.take(frame.number, frame.json())
        else:
            self.streams.take(frame)

    async def _watch_launcher(self) -> None:
        """End when nothing has come for too long."""
        loop = asyncio.get_running_loop()
        self._heard_s = loop.time()
        while (rest_s := self._heard_s + self.settings.heartbeat_s - loop.time()) > 0:
            await asyncio.sleep(rest_s)
            if loop.time() - self._heard_s >= self.settings.heartbeat_s:
                # If it was this process that had no time, what has come meanwhile is read now.
                await asyncio.sleep(_SECOND_LOOK_S)
        self.finish(f"nothing was heard of the launcher for {self.settings.heartbeat_s:g} s")

    async def _watch_guard(self) -> None:
        self._guard.setblocking(False)
        while said := await read_some(self._guard.fileno(), 1):
            self.finish(f"the agent was sent {signal.Signals(said[0]).name}")
        self._guard_is_gone = True
        self.finish(_GUARD_KILLED)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(signum, self.finish, f"the agent was sent {signum.name}")
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)

    # --- children

    def _child_ended(self) -> None:
        for worker in self.workers.values():
            worker.look()
        if not self._is_reaping:
            self._is_reaping = True
            self.run_task(self._reap_later())

    async def _reap_later(self) -> None:
        """Reap orphans that have ended; after this while, no call waits for them as its own children."""
        seen = set(children_ended(self._known()))
        await asyncio.sleep(_REAP_AFTER_S)
        for pid in seen.intersection(children_ended(self._known())):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._is_reaping = False
        if children_ended(self._known()):
            self._child_ended()

    def _reap_known(self) -> None:
        for worker in self.workers.values():
            worker.look()

    def _known(self) -> set[int]:
        return {worker.pid for worker in self.workers.values() if not worker.has_exited}

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.finish(f"a mistake in the agent: {type(error).__name__}: {error}")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a number without a name
        return str(os.getuid())
