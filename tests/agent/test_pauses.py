"""What is said where the launcher did not run for a while: the truth, as far as it is known."""

from __future__ import annotations

import os
import signal
import threading
import time

from autodist.agent import Pauses, reason_of_pause


def test_one_that_was_stopped_is_told_from_one_that_was_starved():
    before, began_s = signal.getsignal(signal.SIGCONT), time.monotonic()
    assert reason_of_pause(began_s) == "it was stopped, as by Ctrl-Z, or this machine had no processor for it"
    with Pauses():
        assert reason_of_pause(began_s) == "this machine had no processor for it"
        os.kill(os.getpid(), signal.SIGCONT)
        assert reason_of_pause(began_s) == "it was stopped, as by Ctrl-Z"
        assert reason_of_pause(time.monotonic()) == "this machine had no processor for it", "that was before"
    assert signal.getsignal(signal.SIGCONT) == before


def test_a_handler_of_others_is_still_called():
    called = []
    before = signal.signal(signal.SIGCONT, lambda signum, frame: called.append(signum))
    try:
        with Pauses():
            os.kill(os.getpid(), signal.SIGCONT)
    finally:
        signal.signal(signal.SIGCONT, before)
    assert called == [signal.SIGCONT]


def test_other_threads_cannot_listen_and_do_not_claim_to():
    said = []

    def listen():
        with Pauses():
            said.append(reason_of_pause(0.0))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert said == ["it was stopped, as by Ctrl-Z, or this machine had no processor for it"]
