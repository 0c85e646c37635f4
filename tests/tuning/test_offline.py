"""A search without a cluster: what a script's first step is captured for."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from autodist.errors import SearchFailed, SearchInterrupted, SpaceEmpty, UsageError
from autodist.graph import Role
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import Host, ResourceSpec, parse_hosts
from autodist.search import Cost, ScoringBudget, hosts_of
from autodist.simulator import Domain, Profile
from autodist.tuning import LaunchedMeasurer, SearchRequest, captured_graph, search_offline
from tests.strategies.examples import graph, variable

FAR = parse_hosts("far1:2,far2:2,far3:2", kind="CPU")
STEP = """
import keras, numpy as np, tensorflow as tf, autodist

ad = autodist.AutoDist(batch={batch!r})
with ad.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    x = np.ones((10, 4), "float32")
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(10)
    {call}
"""
FIT = "model.compile(optimizer, 'mse'); model.fit(dataset.map(lambda x: (x, x[:, :2])), verbose=0)"


def captured(tmp_path, text):
    script = tmp_path / "train.py"
    script.write_text(text)
    return captured_graph(Job(script, FAR, run_dir=tmp_path / "run", grace_s=2.0), ClusterLauncher())


@pytest.mark.parametrize(
    ("batch", "call", "examples"),
    [
        pytest.param("global", "step(x)", 10, marks=pytest.mark.slow),
        ("local", "step(x)", 30),
        pytest.param("local", "[step(x) for x in ad.shard(dataset)]", 10, marks=pytest.mark.slow),
        pytest.param("local", FIT, 10, marks=pytest.mark.slow),
    ],
)
def test_the_batch_is_that_of_all_workers_of_the_cluster(tmp_path, batch, call, examples):
    graph = captured(tmp_path, STEP.format(batch=batch, call=call))
    assert graph.batch_size == examples
    assert [variable.shape for variable in graph.trainable] == [(4, 2), (2,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has ended without a training step in a scope"),
        pytest.param("1 / 0", "the workers have failed: worker 0 ended with exit code 1", marks=pytest.mark.slow),
    ],
)
def test_a_script_without_a_step(tmp_path, text, message):
    with pytest.raises(SearchFailed, match=message):
        captured(tmp_path, text)


@pytest.mark.parametrize("text", ["", pytest.param("1 / 0", marks=pytest.mark.slow)])
def test_a_script_that_has_ended_before_anybody_looks(tmp_path, text):
    """The search's thread may come late on a busy machine."""
    script = tmp_path / "train.py"
    script.write_text(text)
    bench = LaunchedMeasurer(ClusterLauncher(), Job(script, ResourceSpec.local(cpus=1), run_dir=tmp_path / "run"))
    bench.serve()
    with pytest.raises(SearchFailed, match="without a training step" if not text else "ended with exit code 1"):
        bench.captured()


@pytest.mark.slow
def test_what_has_interrupted_a_search_is_named(tmp_path):
    (tmp_path / "train.py").write_text("import os, signal; os.kill(int(os.environ['LAUNCHER']), signal.SIGTERM)")
    job = Job(
        tmp_path / "train.py", FAR, run_dir=tmp_path / "run", grace_s=2.0, env={"LAUNCHER": str(os.getpid())}
    )  # fmt: skip
    with pytest.raises(SearchInterrupted, match="interrupted by SIGTERM"):
        captured_graph(job, ClusterLauncher())


# --- the cheapest


def priced(**settings):
    hosts = [Host(name, name, bandwidth_gbps=gbps, price_per_hour=price) for name, (gbps, price) in settings.items()]
    return ResourceSpec(tuple(hosts))


MIXED = priced(fast1=(10.0, 2.0), fast2=(10.0, 2.0), dear=(10.0, 9.0), slow=(0.05, 2.0))


def searched(spec, utility, step_s=1.0, **settings):
    variables = [variable(f"w{n}", (500, 500), order=n) for n in range(6)]
    names = [v.name for v in variables]
    slots = [replace(variable(f"slot of {name}", (500, 500), role=Role.SLOT), owners=(name,)) for name in names]
    profile = Profile(step_s, dict.fromkeys(names, 0.0), dict.fromkeys(names, step_s), batch_size=64)
    domain = Domain.of(graph(*variables, *slots), spec, batch_size=64, profile=profile)
    request = SearchRequest(Path("unused"), simulator="events", utility=utility, **settings)
    return search_offline(request, domain, ScoringBudget(300))


def test_the_cheapest_leaves_out_hosts_that_cost_more_than_they_give():
    fastest, cheapest = (searched(MIXED, utility) for utility in ("time", "cost"))
    assert hosts_of(fastest.ranking.best.strategy) == ("dear", "fast1", "fast2", "slow")
    assert set(hosts_of(cheapest.ranking.best.strategy)) <= {"fast1", "fast2"}
    cost = Cost(MIXED)
    values = [cost.of(ranked.strategy, ranked.predicted_s) for ranked in cheapest.ranking.ranked]
    assert values == sorted(values)
    assert cost.of(cheapest.ranking.best.strategy, cheapest.ranking.best.predicted_s) == values[0]
    assert cheapest.ranking.scored == cheapest.wanted == 4 * 300
    whole = [ranked for ranked in cheapest.ranking.ranked if len(hosts_of(ranked.strategy)) == 4]
    assert {ranked.origin for ranked in whole if ranked.is_baseline} >= {"PSLoadBalancing", "PartitionedPS"}


def test_the_global_batch_is_the_same_on_fewer_hosts():
    alike = priced(a=(100.0, 1.0), b=(100.0, 1.0))
    ranked = searched(alike, "cost", step_s=50.0).ranking.ranked
    [alone] = {r.predicted_s for r in ranked if len(hosts_of(r.strategy)) == 1}
    assert alone == pytest.approx(50.0, rel=0.01)
    assert min(r.predicted_s for r in ranked if len(hosts_of(r.strategy)) == 2) == pytest.approx(25.0, rel=0.01)


def test_smaller_clusters_without_room_are_left_out():
    hosts = [replace(host, memory_gb=0.001 if host.name.startswith("fast") else None) for host in MIXED.hosts]
    with pytest.raises(SpaceEmpty):
        searched(ResourceSpec(tuple(hosts)), "cost")
    roomy = [replace(host, memory_gb=0.015 if host.name.startswith("fast") else None) for host in MIXED.hosts]
    found = searched(ResourceSpec(tuple(roomy)), "cost")
    assert not set(hosts_of(found.ranking.best.strategy)) <= {"fast1", "fast2"}


def test_the_cheapest_needs_prices():
    with pytest.raises(UsageError, match="there is no price for `far1`, `far2`, `far3`"):
        searched(FAR, "cost")
