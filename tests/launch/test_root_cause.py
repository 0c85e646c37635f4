"""Which of several failures is the cause of the others."""

from autodist.coordination import FailureNote
from autodist.launch._gang import ExitStatus
from autodist.launch.watching._failures import Symptom, root_cause


def cause(*symptoms):
    return root_cause(list(symptoms)).rank


def failed(rank, *, is_echo=False):
    return Symptom(rank, note=FailureNote(f"ValueError: {rank}", is_echo=is_echo))


def ended(rank, signal):
    return Symptom(rank, ExitStatus(None, signal))


def test_a_reason_comes_before_what_follows_from_it():
    assert cause(failed(0, is_echo=True), failed(1)) == 1
    assert cause(failed(2), failed(1)) == 2
    assert cause(failed(0, is_echo=True), failed(1, is_echo=True)) == 0
    assert cause(failed(0), Symptom(1, lost="no answer")) == 1


def test_a_killed_worker_is_the_cause_but_not_one_that_gives_up_after_another():
    assert cause(failed(0), ended(1, "SIGKILL")) == 1
    assert cause(failed(0), ended(1, "SIGABRT")) == 0
    assert cause(ended(1, "SIGABRT"), failed(0)) == 1
    assert cause(failed(0, is_echo=True), ended(1, "SIGABRT")) == 1
