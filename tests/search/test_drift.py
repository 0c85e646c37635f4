"""A machine that is slower for a while: seen by a strategy that is measured now and then, and taken out."""

import dataclasses

import pytest

from autodist.search import Failure, Measurement, Trial, drift_of, steady


def at(time_s, step_s, number=0):
    return Measurement((step_s,), round=number, ended_s=time_s)


def speed(time_s):
    """From 50 s to 100 s all takes half as long again."""
    return 1.5 if 50 <= time_s < 100 else 1.0


def measured(noise=0.0):
    """A reference strategy of 0.1 s each ten seconds, and others, of which each is slower than the one before it."""
    again = tuple(at(t, 0.1 * speed(t) * (1 + noise * (-1) ** k), k) for k, t in enumerate(range(10, 150, 10), 1))
    others = [Trial(k, None, at(10 * k + 5, (0.08 + 0.002 * k) * speed(10 * k + 5)), "random") for k in range(1, 14)]
    return [
        Trial(0, None, at(1, 0.1), "baseline", again=again),
        *others,
        Trial(14, None, Failure("error", ""), "random"),
    ]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_what_was_measured_while_all_was_slower_is_not_taken_for_slower(noise):
    trials = measured(noise)
    spread = (1 + noise) / (1 - noise) - 1  # of two measurements
    assert drift_of(trials).share == pytest.approx(0.5, abs=1.5 * spread + 1e-6)
    times = [trial.step_s for trial in steady(trials)[1:14]]
    raw = [trial.step_s for trial in trials[1:14]]
    assert raw != sorted(raw)
    # At the edges of the slow time nobody knows when it began, but for the distance of two measurements.
    inner = [time for k, time in enumerate(times, 1) if k not in (4, 5, 9, 10)]
    assert inner == sorted(inner)
    assert inner == pytest.approx([0.08 + 0.002 * k for k in range(1, 14) if k not in (4, 5, 9, 10)], rel=spread + 1e-6)
    assert [trial.step_s for trial in trials[1:14]] == raw, "what was measured stays as it was"


def test_without_a_reference_nothing_is_taken_out():
    trials = [dataclasses.replace(trial, again=trial.again[:1]) for trial in measured()]
    assert drift_of(trials).share == 0
    assert steady(trials) == trials
    undated = [dataclasses.replace(trial, again=()) for trial in measured()]
    assert steady([*undated, *undated]) == [*undated, *undated]
    assert drift_of([]).at(5.0) == 1.0
