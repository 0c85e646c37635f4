"""Ending a run from another process, by asking its launcher."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from autodist.errors import LaunchError, TimedOut
from autodist.launch.run_files._process_id import is_alive, is_here
from autodist.launch.run_files._status import read_status
from autodist.report import RunState, RunStatus

_UNTIL_SEEN_S = 5.0
_POLL_S = 0.05


def stop_run(run_dir: Path, timeout_s: float, now: bool = False) -> RunStatus:
    """Ask the launcher of a run to end it, as Ctrl-C does, and wait until it has.

    Args:
        run_dir: The run.
        timeout_s: Longest wait for the end.
        now: Interrupt twice: what is left is killed without grace.

    Returns:
        The state of the run then; that is over.

    Raises:
        LaunchError: The launcher can't be reached from here.
        TimedOut: The run has not ended within the time; it was asked to.
    """
    status = read_status(run_dir)
    if status.is_over:
        return status
    if not is_here(status.launcher):
        raise _elsewhere(status)
    _interrupt(status)
    deadline_s = time.monotonic() + timeout_s
    if now:
        # Two signals at once would arrive as one.
        _wait_until_stopping(run_dir, min(deadline_s, time.monotonic() + _UNTIL_SEEN_S))
        _interrupt(status)
    while not (status := read_status(run_dir)).is_over or is_alive(status.launcher):
        if time.monotonic() > deadline_s:
            raise TimedOut(
                f"run `{status.run_id}` has not ended within {timeout_s:g} s after it was asked to",
                hint=f"`autodist stop {shlex.quote(run_dir.name)} --now` kills it",
            )
        time.sleep(_POLL_S)
    return status


def _wait_until_stopping(run_dir: Path, deadline_s: float) -> None:
    while time.monotonic() < deadline_s:
        status = read_status(run_dir)
        if status.is_over or status.state is RunState.STOPPING:
            return
        time.sleep(_POLL_S)


def _interrupt(status: RunStatus) -> None:
    """Send Ctrl-C's signal to the launcher and to no process that was given its number since."""
    launcher = status.launcher
    try:
        with contextlib.suppress(ProcessLookupError), _pinned(launcher.pid) as pinned:
            if is_alive(launcher):
                _send(pinned, launcher.pid)
    except PermissionError:
        raise LaunchError(
            f"run `{status.run_id}` is another user's: its launcher (pid {launcher.pid}) may not be interrupted by you",
            hint="have its owner stop it",
        ) from None


@contextlib.contextmanager
def _pinned(pid: int) -> Iterator[int | None]:
    """Hold on to a process, so that its number stays its own; None where the system has no means for it."""
    try:
        descriptor = os.pidfd_open(pid)
    except (PermissionError, ProcessLookupError):
        raise
    except (OSError, AttributeError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _send(pinned: int | None, pid: int) -> None:
    if pinned is None:
        os.kill(pid, signal.SIGINT)
    else:
        signal.pidfd_send_signal(pinned, signal.SIGINT)


def _elsewhere(status: RunStatus) -> LaunchError:
    host, run_dir = status.launcher.host, shlex.quote(str(status.run_dir))
    return LaunchError(
        f"run `{status.run_id}` was launched on `{host}` (pid {status.launcher.pid}), which is not here",
        hint=f"type there: autodist stop {run_dir}",
    )
