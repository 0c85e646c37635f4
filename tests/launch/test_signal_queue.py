"""A queue that signal handlers may put into and interrupt."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from autodist.launch._signal_queue import SignalQueue

COUNTING = """
import signal
from autodist.launch._signal_queue import SignalQueue

signal.signal(signal.SIGCONT, lambda *_: None)
queue = SignalQueue()
print("up", flush=True)
for number in range(1_000_000):
    assert queue.get(0.05) is None
    print(number, flush=True)
"""


def test_things_come_in_order_and_none_is_lost():
    queue, taken = SignalQueue(), []
    threads = [threading.Thread(target=lambda of=of: [queue.put((of, n)) for n in range(2000)]) for of in range(4)]
    for thread in threads:
        thread.start()
    while len(taken) < 8000:
        thing = queue.get(10.0)
        assert thing is not None
        taken.append(thing)
    for thread in threads:
        thread.join()
    assert queue.is_empty()
    assert [[n for of, n in taken if of == thread] for thread in range(4)] == [list(range(2000))] * 4


@pytest.mark.parametrize("timeout_s", [-1.0, 0.0, 0.2])
def test_waiting_has_an_end(timeout_s):
    began_s = time.monotonic()
    assert SignalQueue().get(timeout_s) is None
    assert max(timeout_s, 0.0) <= time.monotonic() - began_s < 5.0


def test_a_handler_puts_into_the_queue_that_its_own_thread_is_busy_with():
    queue, count = SignalQueue(), 0
    before = signal.signal(signal.SIGALRM, lambda *_: queue.put("alarm"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        until_s = time.monotonic() + 10.0
        while count < 200:
            assert time.monotonic() < until_s
            queue.put("own")
            count += queue.get(1.0) == "alarm"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_process_that_was_stopped_longer_than_it_waits_goes_on():
    with subprocess.Popen([sys.executable, "-c", COUNTING], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"up\n"
            for _ in range(30):
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(0.06)
                os.kill(process.pid, signal.SIGCONT)
                time.sleep(0.02)
            assert _comes(process.stdout, 3)
        finally:
            process.kill()


def _comes(stream, seconds):
    """Whether something new comes within the time."""
    os.set_blocking(stream.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        while os.read(stream.fileno(), 65536):
            pass
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(0.05)
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(stream.fileno(), 65536))
    return False
