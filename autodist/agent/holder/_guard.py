"""The agent's first process: it starts the holder, and cleans up after it; runs on the machine.

The two watch each other over a pair of sockets that no other process has. If the holder ends, by whatever, its
descendants fall to this process, a subreaper, which ends them. If this process ends, the holder sees that and ends
everything itself. A holder that does not say for long that it lives is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import NoReturn

from autodist.agent._processes import KILL_S, Ending, become_subreaper
from autodist.agent._settings import Settings
from autodist.agent.holder._directory import RunDirectory
from autodist.agent.holder._isolation import enter_namespace, find_obstacle
from autodist.agent.holder._prepared_place import PreparedPlace

__all__ = ["main"]

_MARGIN_S = 10.0  # beyond the holder's own bounds
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main(settings: Settings) -> NoReturn:
    """Be the guard of a holder, for the rest of this process' life."""
    _start_afresh()
    become_subreaper("autodist-guard")
    obstacle = find_obstacle() if settings.isolate else ""
    directory = _directory(settings)
    place = PreparedPlace(directory, os.getpid(), settings.isolate and not obstacle, obstacle)
    if place.is_isolated:
        enter_namespace()
    ours, holders = socket.socketpair()
    holder = os.fork()
    if holder == 0:
        ours.close()
        _hold(settings, place, holders)
    holders.close()
    _redirect(0)  # writing to a holder that has ended must fail
    os._exit(_guard(holder, ours, settings, directory))


def _start_afresh() -> None:
    """Drop what a process inherits from the one that started it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, the end of a child can't be learned
    try:
        os.setsid()
    except PermissionError:
        return  # it leads a process group, as with `ssh`, alone


def _directory(settings: Settings) -> RunDirectory:
    try:
        return RunDirectory(settings.run_id)
    except OSError as error:
        _say(f"no directory can be made for the run: {error}\n")
        os._exit(1)


def _hold(settings: Settings, place: PreparedPlace, guard: socket.socket) -> NoReturn:
    """Be the holder."""
    try:
        os.setsid()  # so that no signal to a group or session reaches both
        from autodist.agent.holder._holder import main as hold

        hold(settings, place, guard)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _redirect(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def _guard(holder: int, line: socket.socket, settings: Settings, directory: RunDirectory) -> int:
    """Wait for the holder's end and clean up after it; returns this process' exit code."""
    status = 1
    try:
        status = _await_end(holder, line, settings)
    finally:
        _redirect(1)  # the launcher is to know at once
        for signum in _ENDING:
            signal.signal(signum, signal.SIG_IGN)
        _end_descendants(settings.grace_s)
        directory.remove()
    return 0 if status == 0 else 1


def _await_end(holder: int, line: socket.socket, settings: Settings) -> int:
    """Return how the holder ended, by itself or because it was stuck; hands on what asks this process to end."""

    def ask(signum: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            line.send(signum.to_bytes(1, "big"), socket.MSG_DONTWAIT)

    for signum in _ENDING:
        signal.signal(signum, ask)
    is_stuck = not _lives_until_end(line, settings.heartbeat_s + settings.grace_s + KILL_S + _MARGIN_S)
    if is_stuck:
        os.kill(holder, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(holder, 0)[1])
    if status not in (0, 1):  # for 1 it has said itself why
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        _say(f"autodist agent: its second process ended with {how}{' because it was stuck' if is_stuck else ''}\n")
    return status


def _lives_until_end(line: socket.socket, silence_s: float) -> bool:
    """Wait for the holder's end; False if it has been silent for longer than this."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while True:
        if not poll.poll(1000 * silence_s):
            return False
        try:
            if not line.recv(4096):
                return True
        except OSError:
            return True


def _end_descendants(grace_s: float) -> None:
    ending = Ending(os.getpid(), grace_s)
    while (pause_s := ending.step()) is not None:
        _reap()
        time.sleep(pause_s)
    _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _say(text: str) -> None:
    """Write to standard error, whose reader may have gone or stopped reading."""
    try:
        os.set_blocking(2, False)
        os.write(2, text.encode())
    except OSError:
        return
