"""Machines over SSH, by the system's own ``ssh``: for sites with logins that only it supports."""

from __future__ import annotations

import asyncio
import math
import re
import shutil
from collections.abc import Sequence

from autodist.errors import HostUnreachable, LaunchError
from autodist.remote._base import Channel, Machine, Transport
from autodist.remote._command import KEEPALIVE_COUNT, KEEPALIVE_S, remote_command
from autodist.remote._subprocess import SubprocessChannel, open_subprocess
from autodist.remote._unreachable import Login, config_file
from autodist.resource_spec import Ssh

_READY = b"\x01autodist: logged in\x01\n"
_SAY_READY = r"printf '\001autodist: logged in\001\n'"
_BROKEN = 255  # what ssh returns when it is not the program's own code
_MOST_NOISE = 1 << 20
_NEITHER_ASK_NOR_HANG = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "LogLevel=ERROR",
    f"ServerAliveInterval={KEEPALIVE_S}",
    f"ServerAliveCountMax={KEEPALIVE_COUNT}",
)
_A_PROGRAM_ONLY = ("RemoteCommand=none", "RequestTTY=no", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no")


class OpensshTransport(Transport):
    """Runs ``ssh`` once per channel, with all that its configuration says: Kerberos, security keys, ControlMaster.

    Host keys are always checked, and it never asks for a password or passphrase. A machine that is cut off is seen to
    be within 10 s.

    Raises:
        LaunchError: There is no ``ssh``.
    """

    def __init__(self) -> None:
        if shutil.which("ssh") is None:
            raise LaunchError("`ssh` not found", hint="install OpenSSH's client, or leave out `--transport ssh`")
        self._channels: list[Channel] = []

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        """Start a program on a machine.

        Raises:
            HostUnreachable: The login fails, or takes longer than ``timeout_s``.
        """
        login = Login.to(machine)
        process = await open_subprocess(_command(machine, argv, timeout_s))
        self._channels.append(process)
        try:
            rest = await asyncio.wait_for(_until_ready(process, login), timeout_s)
        except asyncio.TimeoutError as error:
            await process.close()
            raise login.silent(timeout_s) from error
        except BaseException:
            await process.close()
            raise
        return OpensshChannel(process, rest)

    async def close(self) -> None:
        """Close all channels."""
        channels, self._channels = self._channels, []
        await asyncio.gather(*(channel.close() for channel in channels))


class OpensshChannel(Channel):
    """The streams of a program behind ``ssh``.

    Args:
        process: ``ssh``, logged in.
        rest: What the program has written already.
    """

    def __init__(self, process: SubprocessChannel, rest: bytes) -> None:
        self._process = process
        self._rest = rest

    async def read(self, most_bytes: int = 65536) -> bytes:
        """Return what it has written to standard output; ``b""`` at the end."""
        if not self._rest:
            return await self._process.read(most_bytes)
        first, self._rest = self._rest[:most_bytes], self._rest[most_bytes:]
        return first

    async def read_error(self, most_bytes: int = 65536) -> bytes:
        """Return what it, or ``ssh`` itself, has written to standard error; ``b""`` at the end."""
        return await self._process.read_error(most_bytes)

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input."""
        self._process.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._process.drain()

    async def wait(self) -> int | None:
        """Wait for its end; which signal has ended it is not known."""
        code = await self._process.wait()
        return None if code is None or code == _BROKEN or code < 0 else code

    async def close(self) -> None:
        """Close its streams, and end ``ssh``."""
        await self._process.close()


def _command(machine: Machine, argv: Sequence[str], timeout_s: float) -> list[str]:
    options = [*_NEITHER_ASK_NOR_HANG, *_A_PROGRAM_ONLY, f"ConnectTimeout={math.ceil(timeout_s)}"]
    command = ["ssh", *(f"-o{option}" for option in options)]
    own = config_file()
    if own is not None:
        command += ["-F", own]
    ssh = machine.ssh or Ssh()
    for option, value in (("-l", ssh.username), ("-p", ssh.port), ("-i", ssh.key_file)):
        command += [] if value is None else [option, str(value)]
    return [*command, "--", machine.address, remote_command(machine, argv, _SAY_READY)]


async def _until_ready(process: SubprocessChannel, login: Login) -> bytes:
    """Wait until the login shell runs our command; what it has said before is thrown away."""
    said = b""
    while _READY not in said:
        more = await process.read()
        if not more or len(said) > _MOST_NOISE:
            raise _explain(await _errors(process), login)
        said += more
    return said.partition(_READY)[2]


async def _errors(process: SubprocessChannel) -> str:
    written = b""
    while more := await process.read_error():
        written += more
    return written.decode(errors="replace").strip()


def _explain(written: str, login: Login) -> HostUnreachable:
    """Return what the messages of ``ssh`` mean."""
    if "HOST IDENTIFICATION HAS CHANGED" in written:
        return login.changed_key()
    if "is marked as revoked" in written or "REVOKED HOST KEY" in written:
        return login.revoked_key()
    if re.search(r"Host key verification failed|host key is known for", written):
        return login.unknown_key()
    if "Permission denied" in written or "Too many authentication failures" in written:
        return login.denied([line for line in written.splitlines() if "denied" in line or "Too many" in line])
    if re.search(r"Could not resolve hostname|Name or service not known", written):
        return login.unknown_name()
    if "Connection refused" in written:
        return login.refused()
    unreachable = re.search(r"No route to host|Network is unreachable|timed out|not responding", written)
    if unreachable:
        return login.no_route(unreachable[0])
    if re.search(r"Bad configuration option|terminating, .* bad configuration|Bad owner or permissions", written):
        return login.config(written.splitlines()[0])
    last = written.splitlines()[-1:] or [""]
    return login.other(f"`ssh` says: {last[0]}" if last[0] else "the login shell has ended")
