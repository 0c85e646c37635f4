"""What pictures show, as data: made from the trials of searches, with nothing drawn."""

import dataclasses
import doctest
import importlib
import itertools
import math
import pkgutil
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodist.report.plots as package
from autodist.errors import UsageError
from autodist.report.plots import (
    Progress,
    Searched,
    choice_features,
    importance_of,
    mean_progress,
    picture_of,
    predictions_of,
    progress_of,
)
from autodist.report.plots._panels import _apart
from autodist.report.plots._plot_texts import about_importance, facts, headline, standings
from autodist.search import Failure, TrialStore
from autodist.strategies import AllReduce, PSLoadBalancing, PSSynchronizer
from tests.report.stores import GRAPH, SPEC, add_search, changed, taking
from tests.strategies.examples import graph, variable

SIZES = {v.name: v.size_bytes for v in GRAPH.trainable}
WIDE = "top/wide/kernel"


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(package.__path__)])
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(f"{package.__name__}.{name}")).failed == 0


def test_progress_is_the_best_of_what_was_found_relative_to_the_fastest_baseline(searches):
    searched = searches[0]
    course = progress_of(searched)
    known = {t.origin: t.step_s for t in searched.trials[:2]}
    assert course.reference_s == min(known.values())
    assert max(course.baselines.values()) == 1.0
    assert set(course.baselines) == {origin.removeprefix("baseline ") for origin in known}
    assert course.failures == {7: "memory", 12: "timeout", 13: "memory"}
    assert [speed is None for speed in course.speeds] == [n in (0, 1, 7, 12, 13) for n in range(40)]
    assert course.best[:2] == (None, None)
    for n in range(2, 40):
        fastest = min(t.step_s for t in searched.trials[2 : n + 1] if t.step_s is not None)
        assert course.best[n] == pytest.approx(course.reference_s / fastest)


def test_a_search_without_baselines_is_compared_with_those_of_another_or_with_its_first_trial(searches):
    one = searches[0]
    alone = Searched(one.study, one.trials[2:])
    assert progress_of(alone, searches).reference_s == progress_of(one).reference_s
    course = progress_of(alone)
    assert (course.reference, course.speeds[0], course.baselines) == ("trial 2", 1.0, {})
    summary = picture_of([alone], GRAPH).summary
    assert headline(summary).endswith("and no baseline to compare it with")
    assert standings(summary) == []


def test_the_mean_goes_as_far_as_the_shortest_search():
    curves = [(None, 1.0, 3.0), (None, 2.0, 2.0, 4.0), (0.5, 0.6, 1.0)]
    mean = mean_progress([Progress(n, "random", "PS", 1.0, curve, curve) for n, curve in enumerate(curves)])
    assert mean.best == (None, pytest.approx(1.2), 2.0)
    assert (mean.lowest, mean.highest, mean.num_studies) == ((None, 0.6, 1.0), (None, 2.0, 3.0), 3)


def test_searchers_have_each_their_mean(searches):
    genetic = [changed(s, origin=lambda t: t.origin.replace("random", "genetic")) for s in searches]
    lone = changed(searches[0], origin=lambda t: t.origin.replace("random", "other"))
    picture = picture_of([*searches, *genetic, lone], GRAPH)
    assert [(mean.searcher, mean.num_studies) for mean in picture.means] == [("genetic", 2), ("random", 2)]
    assert [course.searcher for course in picture.progress] == ["random", "random", "genetic", "genetic", "other"]


def test_predictions_in_seconds(searches):
    found = predictions_of(searches)
    trials = [t for s in searches for t in s.trials if t.predicted is not None and t.step_s is not None]
    assert found.are_seconds
    assert [(p.predicted, p.measured) for p in found.points] == [
        pytest.approx((t.predicted, t.step_s), rel=1e-6) for t in trials
    ]
    assert {point.kind for point in found.points} == {"servers", "collectives"}
    assert 0 < found.pairwise < 1


def test_perfect_predictions_are_perfect(searches):
    found = predictions_of([changed(searches[0], predicted=lambda t: t.step_s)])
    assert found.pairwise == 1.0
    assert all(point.predicted == point.measured for point in found.points)


@pytest.mark.parametrize("score", [lambda s: math.log(s), lambda s: 1000 * s, lambda s: s / 50])
def test_scores_that_are_no_seconds_become_ranks(searches, score):
    scored = changed(searches[0], predicted=lambda t: None if t.step_s is None else score(t.step_s))
    found = predictions_of([scored])
    assert not found.are_seconds
    assert found.pairwise > 0.99, "but for the rounding of scores"
    for ranks in ([point.predicted for point in found.points], [point.measured for point in found.points]):
        assert sum(ranks) == sum(range(1, len(ranks) + 1))


def test_a_simulator_that_says_the_same_of_all_is_none(searches):
    for constant in (None, 0.0):
        found = predictions_of([changed(searches[0], predicted=lambda t, constant=constant: constant)])
        assert (found.points, found.pairwise, found.are_seconds) == ((), None, False)


def test_the_summary_counts(searches, picture):
    summary = picture.summary
    trials = [t for s in searches for t in s.trials]
    assert (summary.num_trials, summary.num_found, summary.failures) == (80, 76, {"memory": 2, "timeout": 1})
    assert summary.best.step_s == min(t.step_s for t in trials if t.step_s is not None)
    fastest = [min(t.step_s for t in s.trials[:2]) for s in searches]
    faster = [
        t
        for s, known in zip(searches, fastest, strict=True)
        for t in s.trials[2:]
        if t.step_s is not None and t.step_s < known
    ]
    assert summary.num_faster == len(faster)
    assert summary.speedup == pytest.approx(fastest[0] / summary.best.step_s)
    assert [s.name for s in summary.standings] == ["AllReduce(communicator='collective')", "PSLoadBalancing"]
    told = facts(summary)
    assert told["cluster"] == ("3 hosts: a, b (1 CPU device, 1 Gbit/s), c (1 CPU device, 0.1 Gbit/s)")
    assert told["trials"] == "80, 3 failed (memory 2, timeout 1)"
    assert told["search"] == f"train.py, studies {searches[0].study.id}, {searches[1].study.id}"


def test_a_search_that_found_nothing_better_says_so(searches):
    slow = changed(searches[0], outcome=lambda t: t.outcome if t.origin.startswith("baseline") else taking(9.0))
    summary = picture_of([slow], GRAPH).summary
    assert summary.speedup == 1.0
    assert headline(summary).endswith("ms per step by AllReduce (collective); no trial was faster")
    assert summary.num_faster == 0


def test_the_table_has_each_shard_of_the_best_strategy(picture):
    best = picture.summary.best.strategy
    names = picture.choices.columns["Variable"]
    assert len(names) == sum(len(config.shards) for config in best.variables)
    assert {name.partition(" ")[0] for name in names} == {config.variable for config in best.variables}
    assert all(any(cells) for cells in picture.choices.columns.values())
    assert {"Shape", "MB", "Synchronizer", "Sent MB"} <= set(picture.choices.columns)


def test_what_decides_is_what_matters(searches):
    def step_s(trial):
        return 0.1 * len(trial.strategy.config(WIDE).shards)

    planted = [changed(s, outcome=lambda t: taking(step_s(t))) for s in searches]
    found = importance_of([t for s in planted for t in s.trials], SIZES)
    assert found.r2 > 0.8
    assert (found.kinds[0].name, found.variables[0].name) == ("partition", WIDE)
    assert found.kinds[0].loss > 3 * max(effect.loss for effect in found.kinds[1:])
    assert found == importance_of([t for s in planted for t in s.trials], SIZES)


def test_chance_does_not_matter(searches):
    drawn = np.random.default_rng(0)
    noise = changed(searches[0], outcome=lambda t: taking(float(drawn.uniform(1, 2))))
    found = importance_of(noise.trials, SIZES)
    assert found.r2 < 0.2
    assert "nothing is drawn" in about_importance(dataclasses.replace(found, r2=-0.1))


def test_a_strategy_that_several_searches_measured_counts_once(searches):
    trials = searches[0].trials
    once, often = importance_of(trials, SIZES), importance_of([*trials, *trials, *trials], SIZES)
    assert once.num_strategies == often.num_strategies == 37
    assert often.r2 == pytest.approx(once.r2)


def test_too_few_or_too_similar_trials_say_nothing_of_importance(searches):
    few = importance_of(searches[0].trials[:15], SIZES)
    assert (few.r2, few.kinds) == (None, ())
    assert about_importance(few) == "12 strategies were measured, it takes 20 to say which choices matter."
    same = importance_of(changed(searches[0], outcome=lambda t: taking(1.0)).trials, SIZES)
    assert same.why_not == "all measured strategies are alike"


def test_features_are_shares_of_bytes():
    one, all_reduced = PSLoadBalancing().build(GRAPH, SPEC), AllReduce().build(GRAPH, SPEC)
    found = choice_features([one, all_reduced], SIZES)
    columns = {}
    for variable_, kind, column in zip(found.variables, found.kinds, found.values.T, strict=True):
        columns.setdefault((variable_, kind), []).append(column.tolist())
    destination = one.config(WIDE).synchronizer
    assert isinstance(destination, PSSynchronizer)
    assert columns[WIDE, "server"] == [[1.0, 0.0]]
    assert sorted(columns[WIDE, "synchronizer"]) == [[0.0, 1.0], [1.0, 0.0]]
    assert columns[WIDE, "communicator"] == [[0.0, 1.0]]
    assert (WIDE, "partition") not in columns, "neither cuts anything"


def test_layers_that_are_alike_are_one_where_none_is_large():
    g = graph(*(variable(f"layer_{n}/{part}", (64, 64), order=n) for n in range(20) for part in ("key", "query")))
    built = [builder.build(g, SPEC) for builder in (PSLoadBalancing(), AllReduce())]
    found = choice_features(built, {v.name: v.size_bytes for v in g.trainable})
    assert set(found.variables) == {"layer_*/key", "layer_*/query"}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.1))
def test_labels_keep_apart_and_in_order(heights, gap):
    found = _apart({str(n): height for n, height in enumerate(heights)}, gap)
    placed = sorted(found, key=lambda name: (heights[int(name)], found[name]))
    assert max(found.values()) <= 1
    assert all(found[b] - found[a] > 0.99 * gap for a, b in itertools.pairwise(placed))


def test_searches_that_do_not_belong_together_are_refused(searches, tmp_path):
    other_graph = graph(variable("w", (100, 10)))
    other_spec = dataclasses.replace(SPEC, hosts=SPEC.hosts[:2])
    with TrialStore(tmp_path / "trials.db") as store:
        same, graph_, spec = (
            add_search(store, trials=4, failing=(), **given) for given in ({}, {"g": other_graph}, {"spec": other_spec})
        )
    with pytest.raises(
        UsageError, match="studies 1 and 2 are of different graphs\nstudies 1 and 3 are of different cl"
    ):
        picture_of([same, graph_, spec], GRAPH)
    batch = dataclasses.replace(same, study=dataclasses.replace(same.study, id=4, batch_size=7))
    with pytest.raises(UsageError, match="studies 1 and 4 are of different batch sizes"):
        picture_of([same, batch], GRAPH)


def test_searches_without_a_measured_trial_are_refused(searches):
    failed = [dataclasses.replace(t, outcome=Failure("crash", "gone")) for t in searches[0].trials[:3]]
    for trials in ((), tuple(failed)):
        with pytest.raises(UsageError, match=f"has no measured trial, but {len(trials)} trials"):
            Searched(searches[0].study, trials)


def test_means_of_standings_are_over_searches(searches):
    twice = changed(searches[1], outcome=lambda t: taking(2.0 * (t.step_s or 1.0)))
    picture = picture_of([searches[0], twice], GRAPH)
    for standing in picture.summary.standings:
        times = [s.baselines[standing.name] for s in (searches[0], twice)]
        assert standing.step_s == pytest.approx(statistics.fmean(times))
