"""OpenSSH's configuration about a machine and the way to it, for asyncssh.

asyncssh reads the configuration itself. What is done here is what OpenSSH does and asyncssh does not: a missing key
file or file of known hosts is not an error, hosts may be known to the whole system, and jump hosts are shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import asyncssh

from autodist.remote._base import Machine
from autodist.remote._unreachable import Login, config_file
from autodist.resource_spec import Ssh

_SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<ip>[^\]]+)\]|(?P<name>[^:]+))(?::(?P<port>\d+))?/?")


@dataclass(frozen=True)
class Hop:
    """A host to log in to; what is None is left to the configuration.

    Attributes:
        host: As the resource spec or ``ProxyJump`` names it.
        user: Login name.
        port: Port of its sshd.
        key_file: The one key to try.
    """

    host: str
    user: str | None = None
    port: int | None = None
    key_file: str | None = None

    @classmethod
    def to(cls, machine: Machine) -> Hop:
        """Return the last hop on the way to a machine."""
        ssh = machine.ssh or Ssh()
        return cls(machine.address, ssh.username, ssh.port, ssh.key_file)


@dataclass(frozen=True)
class Stage:
    """A hop, and its configuration. Two are equal if their hops are.

    Attributes:
        hop: The host to log in to.
        arguments: The configuration as arguments of asyncssh.
        user: Login name.
        known_as: The name under which its key is known.
        port: Port of its sshd.
        key_files: What to log in with besides the agent; empty for the usual ones.
        known_hosts: The keys of all hosts.
        jump: ``ProxyJump``.
    """

    hop: Hop
    arguments: dict[str, Any] = field(compare=False)
    user: str = field(compare=False)
    known_as: str = field(compare=False)
    port: int = field(compare=False)
    key_files: list[str] = field(compare=False)
    known_hosts: asyncssh.SSHKnownHosts = field(compare=False)
    jump: str = field(compare=False)


Way: TypeAlias = tuple[Stage, ...]
"""The hosts to log in to, each through the one before; the machine is the last."""


async def find_way(hop: Hop, login: Login) -> Way:
    """Return the way to a host.

    Raises:
        HostUnreachable: The configuration can't be read, or jump hosts need one another.
    """
    return await asyncio.get_running_loop().run_in_executor(None, _find_way, hop, login)


def _find_way(hop: Hop, login: Login) -> Way:
    way = [_stage(hop, login)]
    while jumps := _jumps(way[0], login):
        before = [_stage(jump, login) for jump in jumps]
        if set(before) & set(way):
            circle = " through ".join(stage.hop.host for stage in reversed([*before, *way]))
            raise login.config(f"`ProxyJump` leads in a circle: {circle}")
        # Only the first of several is left to the configuration; the others are reached through the one before.
        way = before + way
    return tuple(way)


def _jumps(stage: Stage, login: Login) -> list[Hop]:
    if not stage.jump:
        return []
    found = [_JUMP.fullmatch(text.strip()) for text in stage.jump.split(",")]
    jumps = [
        Hop(match["ip"] or match["name"], match["user"], int(match["port"]) if match["port"] else None)
        for match in found
        if match is not None
    ]
    if len(jumps) < len(found):
        raise login.config(f"`ProxyJump {stage.jump}` is not `user@host:port` or several of these with commas")
    return [] if jumps[-1].host == stage.hop.host else jumps  # `Host *` means the jump host too


def _stage(hop: Hop, login: Login) -> Stage:
    own = config_file()
    files = [Path(own).expanduser()] if own else [Path("~/.ssh/config").expanduser(), _SYSTEM_CONFIG]
    arguments: dict[str, Any] = {"config": [str(path) for path in files if own or path.is_file()]}
    if hop.user is not None:
        arguments["username"] = hop.user
    if hop.port is not None:
        arguments["port"] = hop.port
    try:
        options = asyncssh.SSHClientConnectionOptions(host=hop.host, client_keys=None, known_hosts=b"", **arguments)
    except (OSError, ValueError) as error:
        raise login.config(str(error)) from error
    get: Callable[[str], Any] = options.config.get
    return Stage(
        hop,
        arguments,
        user=options.username,
        known_as=options.host_key_alias or options.host,
        port=options.port,
        key_files=[hop.key_file] if hop.key_file else _key_files(get("IdentityFile") or ()),
        known_hosts=_known_hosts(
            [*(get("UserKnownHostsFile") or _KNOWN_HOSTS), *(get("GlobalKnownHostsFile") or _SYSTEM_KNOWN_HOSTS)]
        ),
        jump=get("ProxyJump") or "",
    )


def _key_files(names: Sequence[str]) -> list[str]:
    """The files that asyncssh can use, or choose an agent's keys by; OpenSSH is silent on others as well."""
    paths = [str(path) for name in names if (path := Path(name).expanduser()).is_file()]
    return [path for path in paths if is_usable_key(path)]


def is_usable_key(path: str) -> bool:
    """Whether a file holds a key that asyncssh understands, be it encrypted."""
    try:
        asyncssh.read_private_key(path)
    except asyncssh.KeyImportError as error:
        return "assphrase" in str(error)
    except (OSError, ValueError):
        return False
    return True


def _known_hosts(files: Sequence[str]) -> asyncssh.SSHKnownHosts:
    texts = []
    for name in files:
        with contextlib.suppress(OSError):
            texts.append(Path(name).expanduser().read_text(errors="replace"))
    return _parse_known_hosts("\n".join(texts))


@functools.lru_cache(maxsize=4)  # of thousands of lines, for each of many machines
def _parse_known_hosts(text: str) -> asyncssh.SSHKnownHosts:
    """The lines that can be understood; the hosts of others stay unknown, as with OpenSSH."""
    known = asyncssh.SSHKnownHosts()
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            known.load(line)
    return known
