"""A machine as a run sees it: under which address others reach it, and which files it has already.

Runs on the machine itself, within the agent: the standard library only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from autodist.agent.machine._addresses import reached_by

__all__ = ["expand", "has_files", "missing", "ping", "place"]

_CHUNK_BYTES = 1 << 20


def ping() -> bool:
    """Answer."""
    return True


def place(address: str, others: Sequence[str]) -> dict[str, str]:
    """Find out under which of its own addresses the other machines reach this one.

    Args:
        address: What the spec calls this machine.
        others: What it calls the other machines.

    Returns:
        ``address`` and the ``interface`` that has it; both empty if nothing was found.
    """
    found, interface = reached_by(address, others)
    return {"address": found, "interface": interface}


def has_files(root: str, digests: Mapping[str, str]) -> bool:
    """Whether all these files are there with this content: SHA-256 by path below the root."""
    return all(_digest(os.path.join(root, path)) == digest for path, digest in digests.items())


def missing(root: str, names: Sequence[str]) -> list[str]:
    """Return the names for which nothing is below the root, where ``~`` is the login's home."""
    return [name for name in names if not os.path.exists(os.path.join(os.path.expanduser(root), name))]


def expand(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with ``$NAME`` replaced by this machine's variables, as its shell would do it."""
    return {name: os.path.expandvars(text) for name, text in texts.items()}


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            whole = hashlib.sha256()
            while piece := file.read(_CHUNK_BYTES):
                whole.update(piece)
            return whole.hexdigest()
    except OSError:
        return ""
