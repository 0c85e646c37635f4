"""Algorithm 8, with a simulator in the place of the cluster: its rules, not its gains."""

import dataclasses
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import SearchFailed, UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import (
    Catalogue,
    Failure,
    LocalSearcher,
    Measurement,
    RandomSearcher,
    Rule,
    SearchBudget,
    SearchPlan,
    Space,
    Trial,
    TrialStore,
    Tuner,
    run_off,
    with_measurement,
)
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator
from autodist.strategies import PSLoadBalancing
from tests.strategies.examples import graph, variable

SMALL = SearchPlan(proposals=100, qualified=30, batch=4)


@dataclasses.dataclass
class Simulated:
    """Measures by following events; fails where it is told to."""

    domain: Domain
    failing: tuple[int, ...] = ()
    bounds: list[float | None] = dataclasses.field(default_factory=list)

    def measure(self, number, strategy, hopeless_s):
        self.bounds.append(hopeless_s)
        if number in self.failing:
            return Failure("memory", f"no memory for {strategy.id}")
        return Measurement((float(EventSimulator().predict([strategy], self.domain)[0]),))


@pytest.fixture
def space():
    g = graph(*(variable(f"w{n}", (256, 16 * (1 + n % 5)), order=n) for n in range(10)))
    hosts = tuple(Host(name, name, bandwidth_gbps=0.1 if name == "c" else 1.0) for name in "abc")
    return Space(Domain.of(g, ResourceSpec(hosts)), communicators=("tcp", "collective"))


def tuner(space, bench=None, trials=15, kind=RandomSearcher, **options):
    catalogue = Catalogue.of(space)
    searcher = kind(space, catalogue, seed=1)
    bench = bench or Simulated(space.domain)
    settings = {"budget": SearchBudget(trials), "plan": SMALL, "trials": options.pop("trials_so_far", []), **options}
    simulator = settings.pop("simulator", lambda trials: AnalyticSimulator())
    return Tuner(space, catalogue, searcher, simulator, bench, **settings)


def baselines(space):
    return {"PSLoadBalancing": PSLoadBalancing(communicator="tcp").build(space.domain.graph, space.domain.spec)}


def test_the_best_is_never_slower_than_a_baseline_and_nothing_is_tried_twice(space):
    search = tuner(space)
    best = search.run(baselines(space))
    assert len(search.trials) == 15
    assert search.trials[0].origin == "baseline PSLoadBalancing"
    assert best.step_s == min(trial.step_s for trial in search.trials)
    assert len({trial.strategy.id for trial in search.trials}) == 15
    assert [trial.number for trial in search.trials] == list(range(15))


def test_what_breaks_the_rules_is_measured_and_never_the_best(space):
    ruled = Space(space.domain, [Rule.exclude("ps")], communicators=("tcp", "collective"))
    known = baselines(ruled)
    bench = Simulated(ruled.domain)
    search = tuner(ruled, bench)
    bench.measure = lambda number, strategy, hopeless_s: Measurement((0.001 if strategy in known.values() else 1.0,))
    best = search.run(known)
    assert search.trials[0].step_s == 0.001
    assert best.origin == "random"
    assert "PS" not in {type(config.synchronizer).__name__[:2] for config in best.strategy.variables}


def test_what_users_know_and_the_rules_allow_may_be_the_best(space):
    ruled = Space(space.domain, [Rule.exclude("partition")], communicators=("tcp", "collective"))
    bench = Simulated(ruled.domain)
    search = tuner(ruled, bench)
    bench.measure = lambda number, strategy, hopeless_s: Measurement((0.5 if number == 0 else 1.0,))
    assert search.run(baselines(ruled)).origin == "baseline PSLoadBalancing"


def test_of_baselines_that_are_the_same_strategy_one_is_measured(space):
    [strategy] = baselines(space).values()
    search = tuner(space)
    search.run({"PSLoadBalancing": strategy, "the same": strategy})
    assert [trial.origin for trial in search.trials].count("baseline the same") == 0


def test_a_simulator_that_is_right_finds_what_beats_the_baseline(space):
    plan = SearchPlan(proposals=1000, qualified=30, batch=4)
    search = tuner(space, kind=LocalSearcher, simulator=lambda trials: EventSimulator(), plan=plan)
    best = search.run(baselines(space))
    assert best.step_s < search.trials[0].step_s
    assert best.predicted == pytest.approx(best.step_s, rel=1e-3)


def test_a_failing_trial_costs_only_itself(space):
    bench = Simulated(space.domain, failing=(0, 3, 7))
    search = tuner(space, bench)
    best = search.run(baselines(space))
    assert search.failures == {"memory": 3}
    assert best.number not in bench.failing
    assert len(search.trials) == 15


def test_what_takes_too_long_may_be_cut_short(space):
    bench = Simulated(space.domain)
    search = tuner(space, bench, trials=6)
    search.run()
    assert bench.bounds[0] is None
    times = [trial.step_s for trial in search.trials]
    assert bench.bounds[1:] == [min(times[:count]) * SMALL.hopeless for count in range(1, 6)]


def test_a_search_in_which_all_fails_alike_gives_up_and_says_why(space):
    search = tuner(space, Simulated(space.domain, failing=tuple(range(99))))
    with pytest.raises(SearchFailed, match=r"all 5 trials failed \(5 by memory\); the first: no memory for ") as caught:
        search.run()
    assert caught.value.trial == 0
    assert caught.value.hint.startswith("repeat it: `autodist best --trial 0 --out trial_0.json`, then `autodist run ")


def test_a_search_is_taken_up_again_from_its_store(space, tmp_path):
    spec = space.domain.spec
    with TrialStore(tmp_path / "trials.db") as store:
        study = store.study(b"", "graph", spec, 128, "test")
        tuner(space, trials=6, keep=lambda trial: store.add(study, trial)).run(baselines(space))
    with TrialStore(tmp_path / "trials.db") as store:
        earlier = store.trials(study)
        search = tuner(space, budget=SearchBudget(10), trials_so_far=list(earlier))
        search.run(baselines(space))
    assert search.trials[:6] == earlier
    assert [trial.number for trial in search.trials] == list(range(10))
    assert len({trial.strategy.id for trial in search.trials}) == 10


class Listening(RandomSearcher):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.suggested, self.told = [], []

    def suggest(self, proposals):
        self.suggested += proposals.fingerprints.tolist()

    def tell(self, proposals, step_s):
        self.told += zip(proposals.fingerprints.tolist(), step_s.tolist(), strict=True)


def test_searchers_learn_of_every_trial(space):
    bench = Simulated(space.domain, failing=(3,))
    first = tuner(space, bench, trials=6)
    first.run(baselines(space))
    second = tuner(space, trials=10, trials_so_far=list(first.trials))
    second.searcher = Listening(space, second.catalogue, seed=2)
    second.run(baselines(space))
    fingerprints, times = zip(*second.searcher.told, strict=True)
    assert len(set(fingerprints)) == 10, "baselines, earlier trials, and its own"
    assert times[:6] == pytest.approx([t.step_s or float("nan") for t in first.trials], nan_ok=True)
    assert second.searcher.suggested == list(fingerprints[:1])


def test_what_was_tried_under_other_numbers_of_groups_is_not_tried_again(space):
    rules = [Rule.fix("*=allreduce"), Rule.fix("*=whole")]
    small = Space(Domain.of(graph(variable("w")), space.domain.spec), rules, communicators=("collective",))
    [w] = tuner(small).run().strategy.variables
    renumbered = dataclasses.replace(w.shards[0], synchronizer=dataclasses.replace(w.synchronizer, group=7))
    known = dataclasses.replace(tuner(small).run().strategy, variables=(dataclasses.replace(w, shards=(renumbered,)),))
    search = tuner(small)
    search.run({"known": known})
    assert [trial.origin for trial in search.trials] == ["baseline known"]


@pytest.mark.parametrize("similarity", ["choices", "features"])
def test_candidates_are_compared_by_either_similarity(space, similarity):
    search = tuner(space, plan=dataclasses.replace(SMALL, similarity=similarity, alpha=3.0))
    search.run()
    assert len(search.trials) == 15


def test_a_similarity_that_there_is_not():
    with pytest.raises(UsageError, match="there is no similarity `taste`, allowed: choices, features"):
        SearchPlan(similarity="taste")


def test_no_trial_begins_after_the_time_is_over(space):
    search = tuner(space, budget=SearchBudget(trials=10, time_s=1e-9))
    with pytest.raises(SearchFailed, match="no strategy was measured") as caught:
        search.run()
    assert caught.value.hint == "allow more trials or more time"


def test_a_space_that_is_exhausted_ends_the_search(space):
    rules = [Rule.fix("*=allreduce"), Rule.fix("*=whole")]
    small = Space(Domain.of(graph(variable("w")), space.domain.spec), rules, communicators=("collective",))
    search = tuner(small)
    search.run()
    assert len(search.trials) == 1


class Lucky:
    """Measures every strategy as fast as it is, but the first time some much faster."""

    def __init__(self, luck, failing=()):
        self.luck, self.failing = luck, failing
        self.measured = []

    def measure(self, number, strategy, hopeless_s):
        if number in self.failing:
            self.measured.append(number)
            return Failure("error", "no")
        first = number not in self.measured
        self.measured.append(number)
        return Measurement((self.luck[number] if first and number in self.luck else 1.0 + 0.01 * number,), 2, 0.1)


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
        assert re.search(r": trial \d+ takes \d+ % (longer|less time) \(95 of 100 times", verdict.text)


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
