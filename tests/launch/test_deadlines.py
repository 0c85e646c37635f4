import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.coordination._coordinator_server import Progress
from autodist.launch import FailureKind, Job
from autodist.launch.watching._deadlines import WorkersProgress, find_overdue
from autodist.resource_spec import ResourceSpec


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    script = tmp_path_factory.mktemp("job") / "train.py"
    script.write_text("")
    return Job(script, ResourceSpec.local(3, 1), start_timeout_s=100.0, stall_timeout_s=50.0, finish_timeout_s=10.0)


def standing(*progress, ended=()):
    return WorkersProgress(
        dict.fromkeys(range(len(progress)), 0.0), dict(ended), {r: p for r, p in enumerate(progress) if p is not None}
    )


def test_nothing_is_overdue_in_time(job):
    assert find_overdue(job, standing(None, Progress(0, None, 5.0)), 99.0) is None
    assert find_overdue(job, standing(Progress(1, None, 80.0)), 129.0) is None


def test_start_and_stall(job):
    late = find_overdue(job, standing(Progress(1, None, 90.0), None), 101.0)
    assert (late.kind, late.rank) == (FailureKind.NOT_STARTED, 1)
    late = find_overdue(job, standing(Progress(4, None, 80.0), Progress(3, None, 79.0)), 131.0)
    assert (late.kind, late.rank) == (FailureKind.STALLED, 1)
    assert "after 3 steps, nor did worker 0" in late.message


def test_of_several_that_stall_the_one_outside_a_step_is_to_blame(job):
    reports = (Progress(3, True, 80.0), Progress(3, True, 80.1), Progress(3, False, 80.2))
    assert find_overdue(job, standing(*reports), 131.0).rank == 2


def test_of_several_that_stall_one_whose_process_says_nothing_is_to_blame(job):
    reports = [Progress(3, True, 80.0, heard_s=heard_s) for heard_s in (130.0, 82.0, 129.0)]
    late = find_overdue(job, standing(*reports), 131.0)
    assert late.rank == 1
    assert late.message == "worker 1 has said nothing for 49 s, and workers 0, 2 made no training step"
    assert "SIGSTOP" in late.hint


def test_one_that_says_nothing_may_have_taken_steps_since(job):
    """It was stopped before it had told of its first step."""
    reports = (Progress(8, True, 80.0, heard_s=130.0), Progress(0, None, 70.0, heard_s=79.0))
    late = find_overdue(job, standing(*reports), 131.0)
    assert (late.kind, late.rank) == (FailureKind.STALLED, 1)


def test_who_never_said_anything_is_not_silent(job):
    late = find_overdue(job, standing(Progress(1, None, 90.0, heard_s=100.0), None), 101.0)
    assert (late.kind, late.rank) == (FailureKind.NOT_STARTED, 1)


def test_waiting_for_one_that_has_ended(job):
    now = standing(Progress(3, True, 50.0), Progress(3, None, 50.0), ended={1: 52.0})
    assert find_overdue(job, now, 61.0) is None
    late = find_overdue(job, now, 63.0)
    assert (late.kind, late.rank) == (FailureKind.ENDED_EARLY, 1)
    assert "worker 1 ended without an error after 3 steps, while worker 0 made no step for 10 s" in late.message


def test_who_still_steps_or_saves_may_go_on(job):
    assert find_overdue(job, standing(Progress(9, True, 60.0), None, ended={1: 30.0}), 65.0) is None
    assert find_overdue(job, standing(Progress(9, False, 30.0), None, ended={1: 30.0}), 65.0) is None


@given(
    st.lists(
        st.none() | st.builds(Progress, st.integers(0, 3), st.sampled_from([None, True, False]), st.floats(0, 1000)),
        min_size=1, max_size=4,
    ),
    st.floats(0, 2000),
)  # fmt: skip
def test_only_running_workers_are_blamed_for_stalls_and_zero_means_no_bound(job, progress, now_s):
    from dataclasses import replace

    free = replace(job, start_timeout_s=0.0, stall_timeout_s=0.0, finish_timeout_s=0.0)
    ended = {0: 1.0} if len(progress) > 1 else {}
    assert find_overdue(free, standing(*progress, ended=ended), now_s) is None
    late = find_overdue(job, standing(*progress, ended=ended), now_s)
    if late is not None:
        assert (late.rank in ended) == (late.kind is FailureKind.ENDED_EARLY)
