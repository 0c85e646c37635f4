"""Requests that a launcher can make of an agent; runs on the machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodist.agent.holder._calls import CallError, call
from autodist.agent.holder._directory import list_files, make_part, path_below
from autodist.agent.holder._workers import CannotStart, start_worker
from autodist.agent.protocol import CHUNK_BYTES, FrameError, Kind, Stream, StreamReset, encode_json, join
from autodist.tcp_table import socket_at

if TYPE_CHECKING:
    from autodist.agent.holder._holder import Holder

__all__ = ["Requests"]

_MOST_CONNECTIONS = 512
_MOST_NAMES = 1000
_REFUSALS = (CallError, CannotStart, FrameError, OSError, StreamReset, ValueError)


class Requests:
    """Answers requests, each in a task of its own.

    Args:
        holder: Whom they are for.
    """

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._next_stream = 2  # even numbers are of this side
        self._servers: list[asyncio.Server] = []
        self._handlers: dict[str, Callable[..., Awaitable[Any]]] = {
            "call": self._call,
            "close": self._close,
            "fetch": self._fetch,
            "put": self._put,
            "relay": self._relay,
            "spawn": self._spawn,
            "stop": self._stop,
        }

    def take(self, number: int, request: dict[str, Any]) -> None:
        """Begin to answer a request; a signal has no answer and is sent before anything that follows.

        Raises:
            FrameError: There is no such request.
        """
        name = request.pop("do", None)
        if name == "signal":
            self._signal(**request)
            return
        if name not in self._handlers:
            raise FrameError(f"there is no request `{name}`")
        stream = self._holder.streams.open(request.pop("stream")) if "stream" in request else None
        arguments = request if stream is None else {**request, "stream": stream}
        self._holder.run_task(self._answer(number, self._handlers[name](**arguments)))

    async def _answer(self, number: int, work: Awaitable[Any]) -> None:
        try:
            answer = encode_json(Kind.REPLY, number, {"result": await work})
        except _REFUSALS as error:
            is_timeout = isinstance(error, CallError) and error.is_timeout
            answer = encode_json(Kind.REPLY, number, {"error": _text(error), "is_timeout": is_timeout})
        self._holder.writer.write(answer)

    # --- processes

    async def _spawn(self, rank: int, argv: list[str], env: dict[str, str], cwd: str) -> int:
        holder = self._holder
        former = holder.workers.get(rank)
        if former is not None and not former.has_exited:
            raise CannotStart("it is running already")
        scratch = holder.place.directory.path / "scratch" / str(rank)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = {**env, "AUTODIST_SCRATCH": str(scratch)}
        worker, pid = await start_worker(rank, argv, env, cwd, holder.outside, holder)
        holder.workers[rank] = worker
        # Its end is reported after this answer, not before.
        asyncio.get_running_loop().call_later(0, worker.look)
        return pid

    def _signal(self, rank: int, signum: int, everything: bool) -> None:
        worker = self._holder.workers.get(rank)
        if worker is not None:
            worker.signal(signum, everything)

    async def _stop(self, now: bool) -> tuple[int, ...]:
        return await self._holder.stop(now)

    async def _close(self) -> None:
        self._holder.finish("")

    async def _call(self, function: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        return await call(function, arguments, timeout_s)

    # --- files

    async def _put(self, name: str, stream: Stream) -> str:
        """Write what comes on the stream into a file, in a thread: a stuck file system must not stop the agent."""
        stream.end()
        try:
            root = self._holder.place.directory.path
            path = path_below(root, name)
            await _receive(path, root, stream)
        except (OSError, ValueError):
            stream.reset()
            raise
        return str(path)

    async def _fetch(self, stream: Stream, below: str, most_files: int, most_bytes: int) -> dict[str, Any]:
        """Send the files one after the other on the stream; the answer says where one ends."""
        try:
            root = self._holder.place.directory.path
            return await self._send_files(path_below(root, below) if below else root, stream, most_files, most_bytes)
        except (OSError, ValueError):
            stream.reset()
            raise

    async def _send_files(self, root: Path, stream: Stream, most_files: int, room_bytes: int) -> dict[str, Any]:
        sent: list[tuple[str, int]] = []
        left_out: list[str] = []
        for name, size in await asyncio.to_thread(lambda: sorted(list_files(root))):
            content = None
            if len(sent) < most_files and size <= room_bytes:
                content = await asyncio.to_thread(_read, root / name, size)
            if content is None:
                left_out.append(name)
                continue
            await stream.write(content)
            room_bytes -= len(content)
            sent.append((name, len(content)))
        stream.end()
        return {"files": sent, "left_out": left_out[:_MOST_NAMES]}

    # --- connections

    async def _relay(self, relay: int) -> int:
        server = await asyncio.start_server(
            lambda reader, writer: self._accept(relay, reader, writer), "127.0.0.1", 0, limit=CHUNK_BYTES
        )
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _accept(self, relay: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Others on this machine must neither reach the launcher's side, nor take the room of the workers.
        ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        if ends[0] is None or _is_of_others(*ends) or len(self._holder.streams) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        stream = self._holder.streams.open(self._next_stream)
        self._next_stream += 2
        self._holder.event("connected", relay=relay, stream=stream.number)
        await join(reader, writer, stream)


def _is_of_others(peer: tuple[str, int], own: tuple[str, int]) -> bool:
    """Whether a connection is certainly not of this process' user, nor of root."""
    try:
        found = socket_at(peer, own)
    except OSError:  # another system
        return False
    return found is not None and not found.is_trusted


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"`{error.filename}`: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _read(path: Path, most_bytes: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(most_bytes)
    except OSError:
        return None


async def _receive(path: Path, root: Path, stream: Stream) -> None:
    """Write a stream into a file that appears below the root when it is whole."""
    part = await asyncio.to_thread(make_part, root)
    try:
        with os.fdopen(part[0], "wb") as file:
            while data := await stream.read():
                await asyncio.to_thread(file.write, data)
            await asyncio.to_thread(file.flush)
        await asyncio.to_thread(_move, part[1], path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part[1])
        raise


def _move(part: str, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.replace(part, path)
