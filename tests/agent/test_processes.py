"""Which processes descend from one, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from autodist.agent._processes import Ending, SeenProcess, descendants, send_signal
from tests.agent.workbench import is_alive

TREE = "setsid sleep 1000 & sh -c 'sleep 1000; true' & sleep 1000 & echo ready; wait"
THREAD_OUTLIVES_LEADER = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def start(*argv: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    return process


def end(root: int, grace_s: float) -> Ending:
    ending = Ending(root, grace_s)
    while (pause_s := ending.step()) is not None:
        time.sleep(pause_s)
    return ending


@pytest.fixture
def tree():
    process = start("sh", "-c", TREE)
    while len(found := descendants(process.pid)) < 4 or len({one.session for one in found}) < 2:
        time.sleep(0.01)
    yield process
    end(process.pid, 0.0)
    process.kill()
    process.wait()
    process.stdout.close()


def test_descendants_are_found_whatever_their_sessions(tree: subprocess.Popen[bytes]):
    found = descendants(tree.pid)
    assert len(found) == 4
    assert len({process.session for process in found}) == 2
    assert tree.pid not in {process.pid for process in found}
    assert {process.pid for process in found} < {process.pid for process in descendants(os.getpid())}


def test_an_ending_ends_descendants_and_not_the_root(tree: subprocess.Popen[bytes]):
    below = [process.pid for process in descendants(tree.pid)]
    assert end(tree.pid, 1000.0).left == ()
    while any(is_alive(pid) for pid in below):  # its signal is on its way to the last one
        time.sleep(0.01)


def test_a_signal_does_not_reach_a_later_process_of_the_same_number(tree: subprocess.Popen[bytes]):
    process = descendants(tree.pid)[0]
    earlier = SeenProcess(process.pid, process.parent, process.session, process.born - 1)
    send_signal(earlier, signal.SIGKILL)
    time.sleep(0.1)
    assert is_alive(process.pid)
    send_signal(process, signal.SIGKILL)
    while is_alive(process.pid):
        time.sleep(0.01)


@pytest.mark.parametrize("missing", ["function", "system call"])
def test_signals_work_where_there_are_no_pidfds(tree, monkeypatch: pytest.MonkeyPatch, missing: str):
    def fail(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    if missing == "function":
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(os, "pidfd_open", fail)
    assert end(tree.pid, 0.0).left == ()


def test_a_process_whose_first_thread_has_ended_is_alive():
    process = start("sh", "-c", f"exec 3>&1; {sys.executable} -c '{THREAD_OUTLIVES_LEADER}' & wait")
    try:
        (found,) = descendants(process.pid)
        while is_alive(found.pid):  # until the leader is a zombie
            time.sleep(0.01)
        assert [other.pid for other in descendants(process.pid)] == [found.pid]
        assert end(process.pid, 0.0).left == ()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
