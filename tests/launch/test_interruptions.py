"""Ctrl-C and TERM in the scripts of a run: the same place on all workers, time to save, and always an end."""

import signal
import threading
import time

import pytest

from .conftest import Recorder

STEP = "w.steps_taken += 1\n"
MEETINGS = """
steps = 0
def step(slow=0.0):
    global steps
    time.sleep(slow)
    with w.interruption.together():
        w.coordinator.barrier('step', 40.0)
    steps += 1
"""
LOOP = """
try:
    while True:
        step(0.03 * w.rank)
        print('running', flush=True)
except KeyboardInterrupt:
    print('interrupted after', steps, flush=True)
"""


@pytest.fixture
def interrupted(bench):
    """Runs a script, and sends this process signals, each when all workers have said something."""

    def run(text, *sent, workers=2, **settings):
        def send():
            for said, signum in sent:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    if all(said in "".join(bench.observer.texts(rank)) for rank in range(workers)):
                        break
                    time.sleep(0.02)
                signal.pthread_kill(threading.main_thread().ident, signum)

        bench.observer = Recorder()  # that of a run before has heard it all
        threading.Thread(target=send, daemon=True).start()
        began = time.monotonic()
        result = bench.run(STEP + text, workers=workers, **settings)
        assert bench.left() == []
        return result, time.monotonic() - began

    return run


def last(bench, workers=2):
    return [bench.observer.texts(rank)[-1] for rank in range(workers)]


@pytest.mark.parametrize("workers", [1, 3])
def test_keyboard_interrupt_at_the_same_step(workers, bench, interrupted):
    result, _ = interrupted(MEETINGS + LOOP, ("running", signal.SIGINT), workers=workers)
    assert (result.exit_code, result.failure) == (130, None)
    found = set(last(bench, workers))
    assert len(found) == 1, found
    assert found.pop().startswith("interrupted after ")


def test_scripts_save_longer_than_the_grace_and_for_each_other(bench, interrupted):
    """Worker 1 has nothing to save; that it ends takes nothing away from the chief."""
    saving = """
    if w.rank == 1: sys.exit(1)
    time.sleep(2.5)
    w.coordinator.put('saved', b'')
    print('saved', flush=True)
    """
    result, _ = interrupted(MEETINGS + LOOP + saving, ("running", signal.SIGINT), grace_s=1.0)
    assert result.exit_code == 130
    assert last(bench)[0] == "saved"
    assert len(bench.observer.notices) == 1


@pytest.mark.parametrize(
    "elsewhere",
    [
        "time.sleep(60)",
        "w.rank or time.sleep(60)\nw.coordinator.barrier('never', 60.0)",
    ],
)
def test_keyboard_interrupt_outside_of_steps(elsewhere, bench, interrupted):
    text = (
        f"print('here', flush=True)\ntry:\n    exec({elsewhere!r})\nexcept KeyboardInterrupt:\n    print('interrupted')"
    )
    result, took_s = interrupted(text, ("here", signal.SIGINT))
    assert result.exit_code == 130
    assert last(bench) == ["interrupted"] * 2
    assert took_s < 40


def test_a_handler_of_the_scripts_own(bench, interrupted):
    text = """
wanted = []
signal.signal(signal.SIGINT, lambda *_: wanted.append(1))
while not wanted:
    step(0.03 * w.rank)
    print('running', flush=True)
step()
print('ended after', steps, flush=True)
"""
    result, _ = interrupted(MEETINGS + text, ("running", signal.SIGINT))
    assert result.exit_code == 130
    assert len(set(last(bench))) == 1
    assert last(bench)[0].startswith("ended after")


IGNORES = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
GOES_ON = "def told(*_): print('told', flush=True)\nsignal.signal(signal.SIGINT, told)\n"


def test_who_does_not_listen_is_killed_after_the_grace(interrupted):
    text = IGNORES + "with w.interruption.together():\n    print('here', flush=True)\n    while True: time.sleep(1)"
    result, took_s = interrupted(text, ("here", signal.SIGINT), grace_s=1.0)
    assert (result.exit_code, took_s < 40) == (130, True)


def test_a_second_ctrl_c_ends_at_once(interrupted):
    text = GOES_ON + "print('here', flush=True)\nwhile True: time.sleep(0.1)"
    result, took_s = interrupted(text, ("here", signal.SIGINT), ("told", signal.SIGINT), grace_s=50.0)
    assert (result.exit_code, took_s < 40) == (130, True)


SAVES = """
w.interruption.will_save()
while True:
    step(0.03 * w.rank)
    print('running', flush=True)
    w.interruption.may_save(lambda: (w.coordinator.barrier('saving', 9.0), print('saved after', steps, flush=True)))
"""


def test_term_has_checkpoints_saved(bench, interrupted):
    result, _ = interrupted(MEETINGS + SAVES, ("running", signal.SIGTERM), grace_s=20.0)
    assert (result.exit_code, result.failure) == (143, None)
    assert len(set(last(bench))) == 1
    assert last(bench)[0].startswith("saved after")


def test_term_reaches_a_handler_of_the_scripts_own(bench, interrupted):
    own = "def told(*_):\n    print('told', flush=True)\n    sys.exit(0)\nsignal.signal(signal.SIGTERM, told)\n"
    for saves in (False, True):
        text = MEETINGS + own + (SAVES if saves else "print('running', flush=True)\ntime.sleep(60)")
        result, _ = interrupted(text, ("running", signal.SIGTERM))
        assert result.exit_code == 143
        assert last(bench) == ["told"] * 2


def test_ctrl_c_where_the_shell_has_it_ignored(bench, interrupted):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        text = (
            "print('here', flush=True)\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')"
        )
        result, _ = interrupted(text, ("here", signal.SIGINT), workers=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    assert last(bench, 1) == ["interrupted"]


def test_the_chief_saves_while_another_has_ended(bench, interrupted):
    """The other waits in an exit callback, as its server does; neither waits for one that can't come any more."""
    text = """
if w.rank == 1:
    w.on_exit(lambda: w.coordinator.get('saved', 40.0))
    print('here', flush=True)
else:
    w.coordinator.get('interruption/left/1', 40.0)
    print('here', flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(2.5)
        print('saved', flush=True)
        w.coordinator.put('saved', b'')
"""
    result, took_s = interrupted(text, ("here", signal.SIGINT), grace_s=1.0)
    assert (result.exit_code, last(bench)) == (130, ["saved", "here"])
    assert took_s < 40
