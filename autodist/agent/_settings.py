"""Settings that the launcher gives an agent when it starts it; known on both sides."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How an agent is to behave.

    Attributes:
        run_id: Names the run's directory.
        marker: What the agent writes before it greets, so that it differs from what others have written before.
        heartbeat_s: Longest silence of the launcher, > 0.
        grace_s: Time between TERM and KILL, >= 0.
        isolate: Whether to make a PID namespace where that is possible.
    """

    run_id: str
    marker: str
    heartbeat_s: float
    grace_s: float
    isolate: bool
