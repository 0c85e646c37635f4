"""Things that a cluster leaves on the machine while it exists, and how they go away whatever happens to its owner.

Everything of a cluster carries one name: its network namespaces, and a directory. The name says whose process it is, so
that leftovers of a killed owner can be told from what is in use.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import tempfile
from pathlib import Path

from autodist.testing._emulated._tools import SYSTEM_PATH

_NAMESPACES = Path("/run/netns")
_NAME = re.compile(r"(autodist-hosts-(\d+)-(\d+)-[0-9a-f]+)")
_END_TIMEOUT_S = 30.0

# $1 is the name, $2 the directory. All of a namespace's processes die before its name goes: without it they can't be
# found any more.
_REMOVE = r"""
for path in /run/netns/"$1"-*; do
  [ -e "$path" ] || continue
  namespace=${path#/run/netns/}
  for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    pids=$(ip netns pids "$namespace") || break
    [ -n "$pids" ] || break
    kill -KILL $pids 2>/dev/null
    sleep 0.02
  done
  ip netns del "$namespace"
done
rm -rf "$2"
"""


def new_name() -> str:
    """A name for a cluster of this process."""
    return f"autodist-hosts-{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(3)}"


def directory_of(name: str) -> Path:
    """Where a cluster's files are."""
    return Path(tempfile.gettempdir()) / name


class Keeper:
    """A process that removes a cluster as soon as its owner asks for it, or is dead.

    Args:
        name: The cluster's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # A session of its own: Ctrl-C in a terminal is for the owner only.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f"cat >/dev/null\n{_REMOVE}", "sh", name, str(directory_of(name))],
            stdin=subprocess.PIPE, env={"PATH": SYSTEM_PATH}, start_new_session=True, cwd="/",
        )  # fmt: skip

    def end(self) -> None:
        """Remove the cluster now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_TIMEOUT_S)
        if directory_of(self._name).exists():  # it was killed itself
            _remove(self._name)


def sweep() -> list[str]:
    """Remove the clusters whose owners are dead; returns their names."""
    entries = [*_NAMESPACES.glob("autodist-hosts-*"), *Path(tempfile.gettempdir()).glob("autodist-hosts-*")]
    found = {match[1]: match for entry in entries if (match := _NAME.match(entry.name))}
    dead = [name for name, match in found.items() if _started(int(match[2])) != int(match[3])]
    for name in dead:
        _remove(name)
    return dead


def _remove(name: str) -> None:
    command = ["/bin/sh", "-c", _REMOVE, "sh", name, str(directory_of(name))]
    # Another process may sweep at the same time, so what is gone already is no error.
    subprocess.run(command, env={"PATH": SYSTEM_PATH}, capture_output=True, timeout=_END_TIMEOUT_S, check=False)


def _started(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since the machine did; None if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
