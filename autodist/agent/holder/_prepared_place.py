"""The place that the guard has prepared for the holder; runs on the machine."""

from __future__ import annotations

from dataclasses import dataclass

from autodist.agent.holder._directory import RunDirectory

__all__ = ["PreparedPlace"]


@dataclass(frozen=True)
class PreparedPlace:
    """Where a holder finds itself.

    Attributes:
        directory: The run's.
        guard_pid: The guard's process id, as the machine numbers it.
        is_isolated: Whether the holder is the first process of a PID namespace.
        obstacle: Why it is not although that was asked for; else empty.
    """

    directory: RunDirectory
    guard_pid: int
    is_isolated: bool
    obstacle: str
