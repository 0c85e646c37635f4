"""What a search measures again: a reference, all in rounds, those with tiles, and its best in a run-off."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import (
    Measurement,
    Rule,
    SearchBudget,
    SearchPlan,
    Space,
    Trial,
    TrialStore,
    Verdict,
    difference,
    run_off,
    verdict_of,
    with_measurement,
)
from autodist.simulator import Domain

from .tuners import SMALL, Lucky, Simulated, baselines, tuner


def test_who_was_only_lucky_does_not_win_and_no_measurement_is_overwritten(space, tmp_path):
    bench = Lucky({7: 0.2, 9: 0.3, 11: 0.4, 13: 0.5})
    with TrialStore(tmp_path / "trials.db") as store:
        study = store.study(b"", "graph", space.domain.spec, 128, "test")
        search = tuner(space, bench, plan=replace(SMALL, finalists=2), keep=lambda trial: store.add(study, trial))
        best = search.run(baselines(space))
        stored = store.trials(study)
        known = {one.number: one for one in store.measured(study)}
    assert best.number == 0
    assert search.verdict.is_sure
    assert stored == search.trials
    assert {trial.number for trial in search.trials} == set(range(15))
    assert [search.trials[number].step_s for number in (7, 9, 11, 13)] == pytest.approx([1.07, 1.09, 1.11, 1.13])
    assert [search.trials[number].outcome.step_s for number in (7, 9, 11, 13)] == [0.2, 0.3, 0.4, 0.5]
    assert [known[number].step_s for number in (7, 8)] == pytest.approx([1.07, 1.08])
    assert [number for number, one in known.items() if one.is_confirmed] == [0, 7, 9, 11, 13]
    assert bench.measured[15:18] == [7, 9, 0]
    assert bench.measured[18:23] == [13, 11, 0, 9, 7], "those who seem faster join, and turns are in the other order"


def test_the_first_of_all_is_measured_again_after_some_trials(space):
    bench = Lucky({})
    search = tuner(space, bench, plan=replace(SMALL, reference=5))
    search.run(baselines(space))
    assert [place for place, number in enumerate(bench.measured) if number == 0] == [0, 5, 11, 17]
    assert [one.round for one in search.trials[0].again] == [1, 2, 3]
    assert not search.verdict.is_confirmed, "it was measured again alone"


def test_each_is_measured_in_rounds_with_all_others_and_goes_on_where_it_was_broken_off(space):
    bench = Lucky({}, failing=(3,))
    plan = replace(SMALL, rounds=3)
    search = tuner(space, bench, trials=6, plan=plan)

    def broken_off(trial):
        if len(bench.measured) == 9:
            raise KeyboardInterrupt

    search.keep = broken_off
    with pytest.raises(KeyboardInterrupt):
        search.run(baselines(space))
    assert [len(trial.again) for trial in search.trials].count(1) == 3, "three of the second round"
    more = tuner(space, bench, trials=6, plan=plan, trials_so_far=search.trials)
    more.run(baselines(space))
    assert [len(trial.again) for trial in more.trials] == [3, 2, 2, 0, 2, 2], "the reference is in each part"
    rounds = [{one.round for one in trial.again} for trial in more.trials if trial.again]
    assert set.intersection(*rounds), "one round has all of them"
    assert bench.measured[9:11] != bench.measured[6:8]
    assert more.verdict.is_confirmed
    with pytest.raises(UsageError, match="in 0 rounds, allowed: 1 or more"):
        SearchPlan(rounds=0)


def test_a_drift_is_looked_for_in_all_rounds_and_further_rounds_have_their_time(space, monkeypatch):
    bench = Lucky({})
    search = tuner(space, bench, trials=12, plan=replace(SMALL, rounds=3, reference=4))
    search.run(baselines(space))
    places = [place for place, number in enumerate(bench.measured) if number == 0]
    assert max(later - earlier for earlier, later in itertools.pairwise(places)) <= 10, places
    assert len(places) >= 8
    last = [{one.round for one in trial.again} for trial in search.trials]
    assert len(set.intersection(*last)) == 2, "two rounds have all of them, the reference as well"
    bench = Lucky({})
    search = tuner(space, bench, trials=100, plan=replace(SMALL, rounds=2))
    monkeypatch.setattr("autodist.search._tuner.time.monotonic", lambda: float(len(bench.measured)))
    search.budget = SearchBudget(100, 40.5)
    search.run(baselines(space))
    assert 17 <= len(search.trials) <= 21, "half of the time is for the second round"
    assert sum(len(trial.again) for trial in search.trials) >= len(search.trials) - 1


def test_the_fastest_of_a_batch_is_tried_with_tiles_until_one_fails():
    from tests.search.tilings.keras_steps import dense

    spec = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1) for name in "abc"))
    space = Space(Domain.of(dense(6, 384, 768, 96), spec), communicators=("tcp",))
    found = tuner(space, trials=20)
    found.run(baselines(space))
    tiled = [trial for trial in found.trials if trial.origin == "tiled"]
    assert len(tiled) > 1
    assert all(trial.strategy.has_tiles for trial in tiled)
    assert len({trial.strategy.id for trial in found.trials}) == len(found.trials) == 20
    failing = tuner(space, Simulated(space.domain, failing=(tiled[0].number,)), trials=20)
    failing.run(baselines(space))
    assert [trial.origin for trial in failing.trials].count("tiled") == 1
    ruled = Space(space.domain, (Rule.fix("*=ps"),), communicators=("tcp",))
    without = tuner(ruled, trials=12)
    without.run({})
    assert "tiled" not in {trial.origin for trial in without.trials}, "tiles don't obey the rules"


class Noisy:
    """Measures strategies with noise, those that were found by a share faster than the first one."""

    def __init__(self, faster, noise):
        self.faster, self.noise = faster, noise
        self.chance = np.random.default_rng(0)
        self.measured = []

    def measure(self, number, strategy, hopeless_s):
        self.measured.append(number)
        true_s = 1.0 if number == 0 else 1.0 - self.faster if number == 5 else 1.5
        return Measurement((true_s * float(np.exp(self.noise * self.chance.standard_normal())),))


@pytest.mark.parametrize(("faster", "noise", "best", "is_sure"), [(0.1, 0.01, 5, True), (0.0, 0.03, 0, False)])
def test_the_lead_is_measured_until_it_is_sure_and_of_equals_what_users_know_is_best(
    space, faster, noise, best, is_sure
):
    bench = Noisy(faster, noise)
    search = tuner(space, bench, plan=replace(SMALL, finalists=3))
    assert search.run(baselines(space)).number == best
    verdict = search.verdict
    assert verdict.is_confirmed
    assert verdict.is_sure is is_sure
    assert len(bench.measured) - 15 <= 8 * 9
    if is_sure:
        [found] = [how for trial, how in verdict.rivals if trial.number == 0]
        assert found.low < 1 / (1 - faster) - 1 < found.high
        assert re.match(r"the best is \d+ % faster than PSLoadBalancing \(95 of 100 times", verdict.text)
    else:
        assert verdict.text.startswith("nothing is surely faster than PSLoadBalancing: trial 5 takes ")
        assert verdict.text.endswith("; of equals what users know is taken")
        assert re.search(r": trial \d+ takes \d+ % (more|less) time \(95 of 100 times", verdict.text)


def test_each_end_of_an_interval_says_whether_that_is_more_or_less_time():
    def trial(number, *steps_s):
        again = tuple(Measurement((step_s,), round=place) for place, step_s in enumerate(steps_s, 1))
        return Trial(number, None, Measurement((1.0,)), "local", None, again)

    best, rival = trial(0, 1.0, 1.0, 1.0), trial(1, 1.4, 0.75, 0.6)
    found = difference(rival, best)
    assert found.low < found.share < 0 < found.high
    low, high = (f"{100 * abs(share):.0f} %" for share in (found.low, found.high))
    told = f"takes {-100 * found.share:.0f} % less time (95 of 100 times {low} less time to {high} more time, 3 rounds)"
    assert told in Verdict(best, True, ((rival, found),)).text


def test_what_was_not_measured_again_is_told_to_be_lucky(space):
    search = tuner(space, Lucky({}))
    search.run(baselines(space))
    assert not search.verdict.is_confirmed
    assert "was not measured again" in search.verdict.text


@pytest.mark.parametrize(
    ("plan", "time_s", "turns"), [(SMALL, None, 15), (replace(SMALL, finalists=2), 0.5, 1), (SMALL, 9.5, 10)]
)
def test_without_finalists_or_time_nothing_is_measured_again(space, monkeypatch, plan, time_s, turns):
    bench = Lucky({7: 0.2})
    monkeypatch.setattr("autodist.search._tuner.time.monotonic", lambda: float(len(bench.measured)))
    tuner(space, bench, plan=plan, budget=SearchBudget(15, time_s)).run(baselines(space))
    assert bench.measured == list(range(turns))


def test_time_is_left_to_measure_the_best_again(space, monkeypatch):
    bench = Lucky({7: 0.2})
    monkeypatch.setattr("autodist.search._tuner.time.monotonic", lambda: float(len(bench.measured)))
    search = tuner(space, bench, plan=replace(SMALL, finalists=2), budget=SearchBudget(100, 30.5))
    search.run(baselines(space))
    first = len(search.trials)
    assert bench.measured[:first] == list(range(first))
    again = bench.measured[first:]
    assert 7 in again
    assert len(again) >= 6
    assert first + len(again) <= 31


def test_a_search_with_little_time_keeps_half_of_it_for_what_is_measured_first(space, monkeypatch):
    bench = Lucky({})
    monkeypatch.setattr("autodist.search._tuner.time.monotonic", lambda: float(len(bench.measured)))
    search = tuner(space, bench, plan=replace(SMALL, finalists=3), budget=SearchBudget(20, 12.5))
    search.run(baselines(space))
    first = len(search.trials)
    assert 6 <= first <= 7, "as long as one trial takes, three rounds of five finalists would take longer than all"
    assert set(bench.measured[first:]) == {trial.number for trial in search.trials if trial.again}
    assert len(set(bench.measured[first:])) == 2, "two are measured again, for more there is no time"
    assert search.verdict.is_confirmed
    assert len(bench.measured) <= 14


def test_who_breaks_the_rules_is_no_finalist(space):
    bench = Lucky({})
    without_servers = Space(space.domain, (Rule.exclude("ps"),), communicators=("tcp", "collective"))
    search = tuner(without_servers, bench, plan=replace(SMALL, finalists=2))
    best = search.run(baselines(space))
    again = [search.trials[number] for number in bench.measured[15:]]
    assert best.number in {trial.number for trial in again}
    assert all(trial.origin.startswith("baseline") for trial in again if trial.strategy.has_servers)
    assert not best.strategy.has_servers


def test_a_finalist_that_fails_now_is_as_it_was():
    trials = [Trial(k, None, Measurement((1.0 + k,)), "random") for k in range(2)]

    def measure(trial, number):
        return trial if trial.number else with_measurement(trial, Measurement((3.0,), 1), 1 + number)

    found = run_off(trials, measure)
    assert [trial.step_s for trial in found] == [3.0, 2.0]
    assert len(found[0].again) == 1, "nobody is left to compare it with"


def test_last_measurements_that_were_broken_off_are_made_when_the_search_is_taken_up(space):
    plan, kept = replace(SMALL, finalists=3), []

    def keep(trial):
        kept.append(trial)
        if len(kept) == 16:
            raise KeyboardInterrupt

    first = tuner(space, Lucky({4: 0.5}), plan=plan, keep=keep)
    with pytest.raises(KeyboardInterrupt):
        first.run(baselines(space))
    assert not verdict_of(first.trials).is_confirmed

    bench = Lucky({})
    second = tuner(space, bench, plan=plan, trials_so_far=list(first.trials))
    second.run(baselines(space))

    assert len(second.trials) == 15
    assert bench.measured
    assert verdict_of(second.trials).is_confirmed
    third = tuner(space, again := Lucky({}), plan=plan, trials_so_far=list(second.trials))
    third.run(baselines(space))
    assert not again.measured, "what is done is done"
