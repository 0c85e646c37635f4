"""Machines over SSH, by the library asyncssh; importing this module imports it, which takes a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import asyncssh

from autodist.errors import HostUnreachable
from autodist.remote._base import Channel, Machine, Transport
from autodist.remote._command import KEEPALIVE_COUNT, KEEPALIVE_S, remote_command
from autodist.remote._ssh_config import Hop, Stage, Way, find_way
from autodist.remote._ssh_errors import HostKeyWitness, explain
from autodist.remote._unreachable import Login

_MOST_LOGINS = 64  # under way at a time
_CLOSE_S = 2.0
_BROKEN = (asyncssh.Error, OSError, RuntimeError)
_FOR_JUMP = 0.9  # of the time for what is behind it, so that the silent machine is the one that is named


class AsyncsshTransport(Transport):
    """Logs in once per machine, as ``~/.ssh/config`` and the machine's ``ssh`` say; all channels share that login.

    ``Host``, ``Match``, ``Include``, ``HostName``, ``User``, ``Port``, ``IdentityFile``, ``ProxyJump``,
    ``ProxyCommand`` and what else asyncssh knows of OpenSSH's configuration are obeyed, and the SSH agent is used.
    Machines behind one jump host share the login there. Host keys are always checked, and nothing is ever asked at the
    terminal. A machine that is cut off is seen to be within 10 s.
    """

    def __init__(self) -> None:
        self._logins: dict[Way, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._slots = asyncio.Semaphore(_MOST_LOGINS)

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program on a machine.

        Raises:
            HostUnreachable: The login fails, or the program can't be started in time.
        """
        login = Login.to(machine)
        try:
            return await asyncio.wait_for(self._open(login, machine, argv, timeout_s), timeout_s)
        except asyncio.TimeoutError as error:
            raise login.silent(timeout_s) from error

    async def close(self) -> None:
        """Close all logins, those through others first."""
        tasks = sorted(self._logins.items(), key=lambda item: -len(item[0]))
        self._logins.clear()
        for _, task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, HostUnreachable):
                await _end(await task)

    async def _open(self, login: Login, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        way = await find_way(Hop.to(machine), login)
        connection = await self._login(way, login, timeout_s)
        try:
            process = await connection.create_process(remote_command(machine, argv), encoding=None, request_pty=False)
        except _BROKEN as error:
            raise explain(error, login) from error
        return AsyncsshChannel(process)

    async def _login(self, way: Way, login: Login, timeout_s: float) -> asyncssh.SSHClientConnection:
        """Return the login at the end of a way; made now if there is none, shared by all who ask."""
        task = self._logins.get(way)
        if task is None or _is_over(task):
            task = self._logins[way] = asyncio.create_task(self._connect(way, login, timeout_s))
            task.add_done_callback(_is_over)  # asyncio complains about errors that were not read
        return await asyncio.shield(task)  # one waiting task may give up while others go on

    async def _connect(self, way: Way, login: Login, timeout_s: float) -> asyncssh.SSHClientConnection:
        *before, stage = way
        tunnel = None
        if before:
            hop = before[-1].hop
            there = login.through(hop.host, hop.user, hop.port)
            tunnel = await self._login(tuple(before), there, _FOR_JUMP * timeout_s)
        witness = HostKeyWitness()
        try:
            async with self._slots:
                return await asyncio.wait_for(_log_in(stage, tunnel, witness), timeout_s)
        except asyncio.TimeoutError as error:
            raise login.silent(timeout_s) from error
        except (*_BROKEN, ValueError) as error:
            raise explain(error, login, stage, witness) from error


class AsyncsshChannel(Channel):
    """The streams of a program at the other end of a login.

    Args:
        process: Opened for bytes.
    """

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._process = process

    async def read(self, most_bytes: int = 65536) -> bytes:
        """Return what it has written to standard output; ``b""`` at the end."""
        return await _read(self._process.stdout, most_bytes)

    async def read_error(self, most_bytes: int = 65536) -> bytes:
        """Return what it has written to standard error; ``b""`` at the end."""
        return await _read(self._process.stderr, most_bytes)

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input."""
        with contextlib.suppress(*_BROKEN):  # it has ended, and the reader sees that
            self._process.stdin.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        with contextlib.suppress(*_BROKEN):
            await self._process.stdin.drain()

    async def wait(self) -> int | None:
        """Wait for its end."""
        await self._process.wait_closed()
        return self._process.returncode

    async def close(self) -> None:
        """Close its streams; the login stays for others."""
        with contextlib.suppress(*_BROKEN, asyncio.TimeoutError):
            self._process.close()
            await asyncio.wait_for(self._process.wait_closed(), _CLOSE_S)


async def _log_in(
    stage: Stage, tunnel: asyncssh.SSHClientConnection | None, witness: HostKeyWitness
) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        stage.hop.host,
        **stage.arguments,
        tunnel=tunnel,
        client_factory=lambda: witness,
        client_keys=stage.key_files,
        ignore_encrypted=True,
        known_hosts=stage.known_hosts,
        password_auth=False,
        kbdint_auth=False,
        agent_forwarding=False,
        x11_forwarding=False,
        connect_timeout=None,  # the caller has the bound
        login_timeout=0,
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVE_COUNT,
    )


async def _read(stream: asyncssh.SSHReader[bytes], most_bytes: int) -> bytes:
    try:
        return await stream.read(most_bytes)
    except _BROKEN:
        return b""


async def _end(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        await asyncio.wait_for(connection.wait_closed(), _CLOSE_S)
    except asyncio.TimeoutError:  # the other end is gone
        connection.abort()


def _is_over(task: asyncio.Task[asyncssh.SSHClientConnection]) -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()
