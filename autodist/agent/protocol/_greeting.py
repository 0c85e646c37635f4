"""An agent's first report, about itself and its machine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Greeting"]


@dataclass(frozen=True)
class Greeting:
    """An agent and its machine.

    Attributes:
        python: Version of its interpreter, such as ``"3.11.7"``.
        executable: Path of that interpreter.
        host_name: The machine's own name for itself.
        user: The user as whom the agent runs.
        home: That user's home directory; empty if there is none.
        guard_pid: The process that guards the agent, as the machine numbers it.
        holder_pid: The process that holds the workers, as the machine numbers it.
        directory: Path of the run's directory on the machine.
        is_isolated: Whether the workers get a PID namespace of their own.
        not_isolated_because: Why they don't although it was asked for; else empty.
    """

    python: str
    executable: str
    host_name: str
    user: str
    home: str
    guard_pid: int
    holder_pid: int
    directory: str
    is_isolated: bool
    not_isolated_because: str
