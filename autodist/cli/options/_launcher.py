"""What starts the workers of commands that look at a step instead of training, and where their files go."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autodist.launch import ClusterLauncher
    from autodist.report import SearchConsole

__all__ = ["new_directory", "silent_launcher"]


def new_directory(command: str) -> Path:
    """Return where a command's run has its files, if the user does not say."""
    return Path("runs", f"{command}-{secrets.token_hex(3)}")


def silent_launcher(console: SearchConsole, road: Any) -> ClusterLauncher:
    """Return what starts the workers; their lines are in the logs alone."""
    from autodist.launch import ClusterLauncher, SilentObserver

    class Notices(SilentObserver):
        notice = staticmethod(console.notice)

    return ClusterLauncher(Notices(), road)
