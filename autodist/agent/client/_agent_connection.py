"""The line between a launcher and one agent, seen from the launcher: frames, requests, signs of life."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any

from autodist.agent.client._error_output import ErrorOutput
from autodist.agent.client._pauses import reason_of_pause
from autodist.agent.protocol import Decoder, Frame, FrameError, Kind, Streams, encode, encode_json
from autodist.errors import HostUnreachable, LaunchError, TimedOut
from autodist.remote import Channel, Machine

__all__ = ["AgentConnection"]

_READ_BYTES = 1 << 18
_BEATS = 4  # within the time after which silence is loss
_HOLD_S = 0.05
_SECOND_LOOK_S = 0.5


class AgentConnection:
    """Sends requests and frames, and hands on what comes.

    Args:
        machine: Where the agent is.
        channel: The way there.
        complaints: What comes on its standard error.
        heartbeat_s: Longest silence after which the agent is lost.
        is_full: Asked before more is read; while it is true, nothing is, and those who write there have to wait.
    """

    def __init__(
        self,
        machine: Machine,
        channel: Channel,
        complaints: ErrorOutput,
        heartbeat_s: float,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_full = is_full
        self._machine = machine
        self._complaints = complaints
        self._channel = channel
        self._heartbeat_s = heartbeat_s
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loss = ""
        self._is_silent = False
        self._said_why = ""
        self._has_told_loss = False
        self._over = asyncio.Event()
        self._heard_s = self._said_s = asyncio.get_running_loop().time()
        self.streams = Streams(channel.write, channel.drain)

    def serve(
        self,
        first: bytes,
        on_event: Callable[[dict[str, Any]], None],
        on_output: Callable[[int, bytes], None],
        on_loss: Callable[[str], None],
    ) -> None:
        """Begin; ``first`` is what has been read already."""
        self._on_event, self._on_output, self._on_loss = on_event, on_output, on_loss
        self._tasks = [asyncio.ensure_future(self._read(first)), asyncio.ensure_future(self._beat())]

    def ask(self, name: str, /, **arguments: Any) -> asyncio.Future[Any]:
        """Ask for something at once, so that what is sent afterwards comes after it; await the result for the answer.

        Raises:
            HostUnreachable: The agent is lost.
            LaunchError: The request can't be encoded. Both are raised here; the result raises the following.
            TimedOut: What was asked for took longer than it was given.
            LaunchError: It was refused; says why.
        """
        if self._over.is_set():
            raise self._lost()
        number = next(self._numbers)
        self._channel.write(self._encoded(number, name, arguments))
        self._answers[number] = asyncio.get_running_loop().create_future()
        return asyncio.ensure_future(self._answer(number))

    async def _answer(self, number: int) -> Any:
        try:
            told = await self._answers[number]
        finally:
            self._answers.pop(number, None)
        if "error" in told:
            message = f"on `{self._machine}`: {told['error']}"
            raise TimedOut(message) if told["is_timeout"] else LaunchError(message)
        return told["result"]

    def send_request(self, name: str, /, **arguments: Any) -> None:
        """Ask for something without waiting for the answer."""
        self._channel.write(self._encoded(0, name, arguments))

    def give_up(self, reason: str) -> None:
        """Take the agent for lost, as if it had been silent for too long."""
        if not self._over.is_set():
            self._is_silent = True
            self._end(reason)

    async def ended(self, timeout_s: float) -> None:
        """Wait until nothing more comes, but not longer than this."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._over.wait(), timeout_s)

    async def close(self, timeout_s: float) -> None:
        """Wait for the agent's end, as long as it can be seen, and close the channel."""
        if not self._is_silent:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._channel.wait(), timeout_s)
        await self._channel.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._complaints.close()

    def _encoded(self, number: int, name: str, arguments: dict[str, Any]) -> bytes:
        try:
            return encode_json(Kind.REQUEST, number, {"do": name, **arguments})
        except FrameError as error:
            raise LaunchError(f"`{name}` can't be asked of `{self._machine}`: {error}") from error

    async def _read(self, data: bytes) -> None:
        """Take what comes until nothing more does."""
        decoder = Decoder()
        try:
            while True:
                self._heard_s = asyncio.get_running_loop().time()
                for frame in decoder.feed(data):
                    self._take(frame)
                while self._is_full():
                    await asyncio.sleep(_HOLD_S)
                    self._heard_s = asyncio.get_running_loop().time()  # it is not silent: this end does not listen
                data = await self._channel.read(_READ_BYTES)
                if not data:
                    break
        except FrameError as error:
            self._said_why = f"it sent nonsense: {error}"
        if not self._over.is_set():
            self._end(self._said_why or await self._how_it_broke())

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.OUTPUT:
            self._on_output(frame.number, frame.payload)
        elif frame.kind is Kind.REPLY:
            answer = self._answers.get(frame.number)
            if answer is not None and not answer.done():
                answer.set_result(frame.json())
        elif frame.kind is Kind.EVENT:
            event = frame.json()
            if event["event"] in ("ending", "ended"):
                self._said_why = event["reason"]
            if event["event"] == "ending":
                self._tell_loss(self._with_pause(event["reason"]))
            self._on_event(event)
        elif frame.kind is not Kind.BEAT:
            self.streams.take(frame)

    async def _beat(self) -> None:
        """Say every now and then that this side lives, and see whether the other does."""
        loop = asyncio.get_running_loop()
        while not self._over.is_set():
            self._channel.write(encode(Kind.BEAT))
            self._said_s = loop.time()
            await asyncio.sleep(self._heartbeat_s / _BEATS)
            if loop.time() - self._heard_s < self._heartbeat_s:
                continue
            # If it was this process that had no time, what has come meanwhile is read now.
            await asyncio.sleep(_SECOND_LOOK_S)
            if loop.time() - self._heard_s >= self._heartbeat_s:
                self.give_up(f"nothing was heard of it for {self._heartbeat_s:g} s")

    def _end(self, reason: str) -> None:
        """Let everybody know that there is no agent any more."""
        reason = self._loss = self._with_pause(reason)
        self._over.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._lost())
        self.streams.break_off()
        self._tell_loss(reason)

    def _with_pause(self, reason: str) -> str:
        """Return the reason of an end, after that of a time in which this side has sent nothing, if there was one."""
        stopped_s = asyncio.get_running_loop().time() - self._said_s - self._heartbeat_s / _BEATS
        if stopped_s < self._heartbeat_s / 2:
            return reason
        why = reason_of_pause(self._said_s)
        return f"the launcher itself did not run for {stopped_s:.0f} s: {why}; after that: {reason}"

    def _tell_loss(self, reason: str) -> None:
        """Say once that the agent is gone, or about to go."""
        if not self._has_told_loss:
            self._has_told_loss = True
            self._on_loss(reason)

    def _lost(self) -> HostUnreachable:
        reason = f": {self._loss}" if self._loss else ""
        return HostUnreachable(
            f"the agent on `{self._machine}` is gone{reason}",
            hint="see whether the machine is up and reachable, and whether it had enough memory",
            address=self._machine.address,
        )

    async def _how_it_broke(self) -> str:
        """Return what standard error says about the end."""
        said = await self._complaints.text()
        return f"the connection ended: {said}" if said else "the connection ended"
