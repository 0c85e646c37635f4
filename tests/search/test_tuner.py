"""Algorithm 8, with a simulator in the place of the cluster: its rules, not its gains."""

import dataclasses

import pytest

from autodist.errors import SearchFailed, UsageError
from autodist.search import (
    LocalSearcher,
    Measurement,
    RandomSearcher,
    Rule,
    SearchBudget,
    SearchPlan,
    Space,
    TrialStore,
)
from autodist.simulator import Domain, EventSimulator
from tests.strategies.examples import graph, variable

from .tuners import SMALL, Simulated, baselines, tuner


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


def test_a_search_that_is_stopped_measures_no_more(space):
    kept, bench = [], Simulated(space.domain)
    plan = dataclasses.replace(SMALL, finalists=3, rounds=2)
    search = tuner(space, bench, keep=kept.append, is_stopped=lambda: len(kept) >= 5, plan=plan)
    search.run(baselines(space))
    assert len(search.trials) == len(bench.bounds) == 5


def test_a_space_that_is_exhausted_ends_the_search(space):
    rules = [Rule.fix("*=allreduce"), Rule.fix("*=whole")]
    small = Space(Domain.of(graph(variable("w")), space.domain.spec), rules, communicators=("collective",))
    search = tuner(small)
    search.run()
    assert len(search.trials) == 1
