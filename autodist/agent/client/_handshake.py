"""From an open channel to an agent that has greeted, or to an error that says what came instead."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from autodist.agent.client._error_output import ErrorOutput
from autodist.agent.client._sources import OLDEST_PYTHON
from autodist.agent.protocol import Greeting
from autodist.errors import HostUnreachable
from autodist.remote import Channel, Machine

__all__ = ["Handshake"]

_MOST_NOISE_BYTES = 1 << 18
_MOST_GREETING_BYTES = 1 << 16
_QUOTED_CHARS = 400
_LAST_WORDS_S = 5.0
_PYTHON_HINT = "name another one with `python:` of this host in the resource spec"


class Handshake:
    """Waits for the greeting on a channel.

    Args:
        machine: Where the channel leads to.
        channel: Open, and the agent's text written to it.
        complaints: What comes on its standard error.
    """

    def __init__(self, machine: Machine, channel: Channel, complaints: ErrorOutput) -> None:
        self._machine = machine
        self._complaints = complaints
        self._channel = channel
        self._python = machine.interpreter
        self._noise = b""

    async def greeting(self, marker: str, timeout_s: float, told_s: float) -> tuple[Greeting, bytes]:
        """Return the greeting and what came after it.

        Args:
            marker: What precedes it.
            timeout_s: Longest time.
            told_s: The time that an error names.

        Raises:
            HostUnreachable: There was none; the channel is closed then.
        """
        try:
            told, rest = await self._bounded(marker.encode(), timeout_s, told_s)
            return self._checked(told), rest
        except BaseException:
            await self._channel.close()
            await self._complaints.close()
            raise

    async def _bounded(self, marker: bytes, timeout_s: float, told_s: float) -> tuple[dict[str, Any], bytes]:
        try:
            return await asyncio.wait_for(self._find(marker), max(timeout_s, 0.0))
        except asyncio.TimeoutError:
            raise await self._failed(f"`{self._machine}` started no agent within {told_s:g} s") from None

    async def _find(self, marker: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the greeting's content and the rest."""
        while marker not in self._noise:
            data = await self._channel.read()
            if not data:
                raise await self._ended()
            self._noise += data
            if len(self._noise) > _MOST_NOISE_BYTES + len(data):
                raise await self._failed(f"`{self._machine}` writes so much that no agent is found in it")
        self._noise, _, rest = self._noise.partition(marker)
        while b"\n" not in rest:
            data = await self._channel.read()
            if not data or len(rest) > _MOST_GREETING_BYTES:
                raise await self._ended()
            rest += data
        line, _, rest = rest.partition(b"\n")
        content: dict[str, Any] = json.loads(line)
        return content, rest

    def _checked(self, told: dict[str, Any]) -> Greeting:
        """Return the greeting.

        Raises:
            HostUnreachable: Its interpreter is too old for an agent.
        """
        if "guard_pid" in told:
            return Greeting(**told)
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise HostUnreachable(
            f"`{self._machine}` has Python {told['python']} as `{told['executable']}`, {oldest} or newer is needed",
            hint=_PYTHON_HINT,
            address=self._machine.address,
        )

    async def _ended(self) -> HostUnreachable:
        """Say why the program has ended without a greeting."""
        code = None
        with contextlib.suppress(asyncio.TimeoutError):
            code = await asyncio.wait_for(self._channel.wait(), _LAST_WORDS_S)
        if code in (126, 127):
            return await self._failed(f"there is no `{self._python}` on `{self._machine}`", _PYTHON_HINT)
        how = "" if code is None else f" with exit code {code}" if code >= 0 else f" by signal {-code}"
        return await self._failed(f"`{self._python}` on `{self._machine}` ended{how} before it answered", _PYTHON_HINT)

    async def _failed(self, message: str, hint: str | None = None) -> HostUnreachable:
        """Return the error, with what was said instead of a greeting."""
        said = await self._complaints.text() or self._noise.decode(errors="replace").strip()
        quoted = f"; it said: {said[-_QUOTED_CHARS:].strip()}" if said else ""
        default = "see whether a login there without a terminal works: `ssh HOST true`"
        return HostUnreachable(f"{message}{quoted}", hint=hint or default, address=self._machine.address)
