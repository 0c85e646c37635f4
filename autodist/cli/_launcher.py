"""What starts the workers of commands that look at a step instead of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autodist.launch import ClusterLauncher
    from autodist.report import SearchConsole

__all__ = ["silent_launcher"]


def silent_launcher(console: SearchConsole, road: Any) -> ClusterLauncher:
    """Return what starts the workers; their lines are in the logs alone."""
    from autodist.launch import ClusterLauncher, SilentObserver

    class Notices(SilentObserver):
        notice = staticmethod(console.notice)

    return ClusterLauncher(Notices(), road)
