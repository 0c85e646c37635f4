"""Standard error of an agent, or of the program that reaches it."""

from __future__ import annotations

import asyncio
import contextlib

from autodist.remote import Channel

__all__ = ["ErrorOutput"]

_MOST_BYTES = 4096
_LAST_S = 0.5


class ErrorOutput:
    """Keeps the end of what comes on a channel's standard error."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._said = b""
        self._listening = asyncio.ensure_future(self._listen())

    async def text(self) -> str:
        """Return what was said; waits a moment for the rest of it."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._listening), _LAST_S)
        return self._said.decode(errors="replace").strip()

    async def close(self) -> None:
        """Listen no more."""
        self._listening.cancel()
        await asyncio.wait([self._listening])

    async def _listen(self) -> None:
        while data := await self._channel.read_error():
            self._said = (self._said + data)[-_MOST_BYTES:]
