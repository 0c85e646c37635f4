"""Who counts as cut off from whom, by what the machines have found."""

import pytest

from autodist.coordination._coordinator_server import Progress
from autodist.launch import FailureKind
from autodist.launch.watching._deadlines import WorkersProgress
from autodist.launch.watching._reachability import Reachability, WatchedMachine, find_cut

PLACES = {rank: WatchedMachine((rank,), f"10.0.0.{rank + 1}", 1) for rank in range(3)}
NOBODY = {0: set(), 1: set(), 2: set()}
APART = {0: {1}, 1: {0}, 2: set()}


def standing(*in_step, at_s=100.0, pace_s=0.1):
    progress = {rank: Progress(5, state, at_s, pace_s) for rank, state in enumerate(in_step)}
    return WorkersProgress(dict.fromkeys(progress, 0.0), {}, progress)


def found(*rounds, workers=None, places=PLACES, now_s=None):
    """What is found after rounds with the times at which they began."""
    silences = Reachability()
    for began_s, unanswered in rounds:
        silences.note(began_s, unanswered)
    workers = standing(True, True, True) if workers is None else workers
    return find_cut(silences, workers, places, rounds[-1][0] if now_s is None else now_s)


def test_a_pair_that_is_silent_for_long_is_named():
    cut = found((90, NOBODY), (101, APART), (110, APART), now_s=113)
    assert (cut.kind, cut.rank, cut.cut) == (FailureKind.UNREACHABLE, 1, ((0, 1),))
    assert cut.message == ("worker 1 does not reach worker 0 (10.0.0.2 -> 10.0.0.1): no answer either way for 12 s")


@pytest.mark.parametrize(
    "rounds",
    [
        [(90, NOBODY), (101, APART), (112, APART)],  # not for long
        [(80, NOBODY), (90, APART), (94, APART)],  # not for long, as far as is known: machines may have answered late
        [(90, NOBODY), (101, APART), (107, NOBODY), (110, APART), (120, APART)],  # an answer between
        [(90, NOBODY), (101, {0: {1}, 1: set(), 2: set()}), (115, {0: {1}, 1: set(), 2: set()})],  # one way is enough
        [(90, NOBODY), (101, APART), (110, {1: {0}, 2: set()}), (114, APART)],  # one of them isn't heard
        [(101, APART), (115, APART)],  # never reached
    ],
)
def test_what_is_no_cut(rounds):
    assert found(*rounds) is None


@pytest.mark.parametrize(
    ("workers", "is_cut"),
    [
        (standing(True, False, False), True),
        (standing(None, None, None), False),  # they trace, as far as is known
        (
            WorkersProgress(dict.fromkeys(range(2), 0.0), {}, {1: Progress(0, True, 1.0)}),
            True,
        ),  # one connects to the others
        (standing(False, False, True), False),  # nobody of the pair waits in a step
        (standing(True, True, True, at_s=114.0), False),  # it has just taken one
        (standing(True, True, True, pace_s=6.0), True),
        (standing(True, True, True, pace_s=9.0), False),  # steps take that long
        (WorkersProgress({0: 0.0, 1: 0.0}, {}, {}), False),  # nothing is known of them
        (WorkersProgress({0: 0.0, 1: 0.0}, {0: 110.0, 1: 110.0}, {}), False),  # both have ended
    ],
)
def test_only_who_waits_misses_the_others(workers, is_cut):
    assert bool(found((90, NOBODY), (101, APART), (114, APART), workers=workers, now_s=115)) == is_cut


@pytest.mark.parametrize(("steps", "is_cut"), [(0, True), (1, False)])
def test_a_pair_that_never_reached_each_other_is_missed_until_training_goes_on(steps, is_cut):
    progress = {rank: Progress(steps if rank == 2 else 0, True, 1.0) for rank in range(3)}
    workers = WorkersProgress(dict.fromkeys(progress, 0.0), {}, progress)
    assert bool(found((101, APART), (114, APART), workers=workers)) == is_cut
    assert not found((101, APART), (190, APART), workers=standing(None, None, None))


def test_between_steps_a_longer_silence_is_borne():
    saving = standing(False, False, False)
    assert found((90, NOBODY), (101, APART), (150, APART), workers=saving) is None
    assert found((90, NOBODY), (101, APART), (161, APART), workers=saving)


def test_the_machine_that_reaches_nobody_is_named():
    lonely = {0: {1}, 1: {0, 2}, 2: {1}}
    cut = found((90, NOBODY), (101, lonely), (114, lonely))
    assert cut.rank == 1
    assert cut.message.startswith("worker 1 does not reach workers 0, 2 (10.0.0.2 -> 10.0.0.1, 10.0.0.3): ")


def test_of_several_cuts_the_others_are_counted():
    halves = {0: {2, 3}, 1: {2, 3}, 2: {0, 1}, 3: {0, 1}}
    places = PLACES | {3: WatchedMachine((3,), "10.0.0.4", 1)}
    workers = standing(True, True, True, True)
    cut = found((90, {rank: set() for rank in range(4)}), (101, halves), (114, halves), workers=workers, places=places)
    assert cut.message.startswith("worker 3 does not reach workers 0, 1 (10.0.0.4 -> 10.0.0.1, 10.0.0.2), and 2 more")


def test_a_machine_with_several_workers_is_one():
    places = {0: WatchedMachine((0, 1), "10.0.0.1", 1), 2: WatchedMachine((2,), "10.0.0.3", 1)}
    apart = {0: {2}, 2: {0}}
    workers = standing(False, True, False)
    assert found((90, {0: set(), 2: set()}), (101, apart), (114, apart), workers=workers, places=places).rank == 2
