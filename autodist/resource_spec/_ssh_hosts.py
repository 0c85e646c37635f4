"""The hosts of ``~/.ssh/config``: names without wildcards, and what it says about them."""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from autodist.resource_spec._entries import Mistakes
from autodist.resource_spec._value_checks import is_address

_DEEPEST = 16  # as OpenSSH's own limit of files that include files
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")


@dataclass(frozen=True)
class SshHost:
    """One host of an SSH configuration.

    Attributes:
        alias: The name to log in by.
        address: ``HostName``, or the alias where there is none.
        username: ``User``, if given.
        port: ``Port``, 22 if none is given.
        key_file: The first ``IdentityFile``, if given.
        is_behind_jump: Whether the way there is a ``ProxyJump`` or ``ProxyCommand``.

    Example:
        >>> SshHost("gpu1", "10.0.0.5").port
        22
    """

    alias: str
    address: str
    username: str | None = None
    port: int = 22
    key_file: str | None = None
    is_behind_jump: bool = False


Blocks: TypeAlias = "tuple[tuple[str, ...], ...]"


@dataclass(frozen=True)
class _Setting:
    """A line, with the ``Host`` lines above it, its own file's and those of the files around it.

    All of them must fit. None under ``Match``, which is not evaluated here.
    """

    blocks: Blocks | None
    key: str
    value: str


def read_ssh_config(path: str | Path | None = None) -> tuple[SshHost, ...]:
    """Return the hosts that the configuration names without wildcards, in its order, with ``Include`` followed.

    Names in ``Match`` blocks are not found, nor hosts that are not machines to work on: those whose user is ``git``.

    Args:
        path: Path of the file; None: ``~/.ssh/config``.

    Raises:
        SpecError: The file, or one that it includes, can't be read; or a port or an address can't be one. All
            mistakes are listed.
    """
    path = Path.home() / ".ssh" / "config" if path is None else Path(path)
    mistakes = Mistakes(str(path))
    settings = list(_settings(path, path.parent, (), 0, mistakes))
    named = [setting.blocks[-1] for setting in settings if setting.key == "host" and setting.blocks]
    names = dict.fromkeys(name for patterns in named for name in patterns if _is_plain(name))
    hosts = [_host(name, settings, mistakes) for name in names]
    mistakes.check()
    return tuple(host for host in hosts if host.username != "git")


def _is_plain(pattern: str) -> bool:
    return not set("*?!") & set(pattern)


def _settings(path: Path, home: Path, outer: Blocks | None, depth: int, mistakes: Mistakes) -> Iterator[_Setting]:
    """Yield the lines of a file and of those it includes; ``outer`` has the lines above the one that includes it."""
    blocks = outer
    for number, key, words in _lines(path, mistakes):
        if key == "host":
            blocks = None if outer is None else (*outer, tuple(words))
            yield _Setting(blocks, "host", "")
        elif key == "match":
            blocks = outer if [word.lower() for word in words] == ["all"] else None
        elif key == "include" and depth == _DEEPEST:
            mistakes.add(f"{path}:{number}: files include each other more than {_DEEPEST} deep")
        elif key == "include":
            for included in sorted(file for word in words for file in _found(word, home)):
                yield from _settings(included, home, blocks, depth + 1, mistakes)
        elif words:
            yield _Setting(blocks, key, words[0])


def _lines(path: Path, mistakes: Mistakes) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, key and words of each line that has some."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        mistakes.add(f"{path} can't be read: {error.strerror}")
        return
    for number, line in enumerate(lines, start=1):
        match = None if line.lstrip().startswith("#") else _LINE.fullmatch(line)
        if match is not None:
            yield number, match[1].lower(), _words(match[2])


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _found(pattern: str, home: Path) -> list[Path]:
    whole = home / Path(pattern).expanduser()
    return [Path(found) for found in glob.glob(str(whole)) if Path(found).is_file()]


def _host(alias: str, settings: list[_Setting], mistakes: Mistakes) -> SshHost:
    """Return the settings of a name; of several values the first counts."""
    values: dict[str, str] = {}
    for setting in settings:
        if setting.blocks is not None and all(_applies(alias, patterns) for patterns in setting.blocks):
            values.setdefault(setting.key, setting.value)
    address = _expanded(values.get("hostname", alias), alias)
    port = values.get("port", "22")
    if not is_address(address):
        mistakes.add(f"host `{alias}` has the address `{address}`, expected a host name or an IP address")
    if re.fullmatch("[0-9]{1,5}", port) is None or not 1 <= int(port) <= 65535:
        mistakes.add(f"host `{alias}` has the port `{port}`, expected a number from 1 to 65535")
        port = "22"
    jumps = (values.get("proxyjump", "none"), values.get("proxycommand", "none"))
    is_behind_jump = any(jump.lower() != "none" for jump in jumps)
    return SshHost(alias, address, values.get("user"), int(port), values.get("identityfile"), is_behind_jump)


def _applies(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name fits one of the patterns, and none of those with ``!``."""
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns if not pattern.startswith("!"))


def _expanded(text: str, alias: str) -> str:
    return re.sub("%[h%]", lambda token: alias if token[0] == "%h" else "%", text)
