"""The text that a login shell gets for a program and its arguments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from autodist.remote._base import Machine

KEEPALIVE_S = 15
"""Seconds without a word from the machine after which it is asked for one, which routers on the way notice as well."""

KEEPALIVE_COUNT = 4
"""Unanswered questions after which the connection is given up: later than agents, whose silence is what ends a run."""


def remote_command(machine: Machine, argv: Sequence[str], *before: str) -> str:
    """Return what sshd's login shell is to read so that it becomes the program, with exactly these arguments.

    Args:
        machine: Its ``ssh.python_venv`` comes first: a command of the shell, as the user wrote it.
        argv: Program and arguments.
        before: Shell commands that come right before the program.

    Example:
        >>> remote_command(Machine("h1"), ["echo", "a b", "$HOME"])
        "exec echo 'a b' '$HOME'"
    """
    venv = machine.ssh.python_venv if machine.ssh is not None else None
    return " && ".join([*([venv] if venv else []), *before, f"exec {shlex.join(argv)}"])
