"""Simulators that learn, from strategies whose times a known rule makes: they find the rule where formulas can't."""

from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import SimulatorError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Catalogue, Rule, Space, sample
from autodist.simulator import (
    LEARNED,
    AnalyticSimulator,
    Calibration,
    Domain,
    EnsembleSimulator,
    EventSimulator,
    ForestSimulator,
    GraphAttentionSimulator,
    LinearSimulator,
    MeasuredStrategies,
    RecurrentSimulator,
    accuracy_of,
    encode,
    load_simulator,
    pairs,
    save_simulator,
)
from autodist.simulator.features import RAW
from autodist.simulator.learned._scaling import Scaling
from autodist.strategies import AllReduce, PartitionedPS, PSLoadBalancing
from autodist.strategies.synchronizers import is_served
from tests.strategies.examples import graph, variable

RULE = EventSimulator(Calibration(message_s=6e-4))


def measured(hosts, count, seed, num_variables=12, noise=0.03):
    """Strategies that take what the event simulation says, and a little more or less; without copies.

    Each value travels in a message of its own, as with TensorFlow's collectives and the servers of earlier versions,
    whose trials are kept: what single messages cost is then a good part of a step, and what formulas know least of.
    """
    wanted = graph(*(variable(f"w{n}", (256, 16 * (1 + n % 5)), order=n) for n in range(num_variables)))
    space = without_connections_of_ours(Domain.of(wanted, ResourceSpec(hosts)))
    drawn = sample(space, Catalogue.of(space), count, np.random.default_rng(seed))
    no, one = np.zeros(len(drawn.table), bool), np.ones(len(drawn.table), np.float32)
    table = drawn.table.replaced(messages=one, has_own_connections=no, is_coded=no)
    times = RULE.score(table, space.domain, count)
    disturbed = times * np.random.default_rng(seed).lognormal(0, noise, count)
    return MeasuredStrategies(space.domain, table, disturbed.astype(np.float32))


def without_connections_of_ours(domain):
    """Servers, or collectives of TensorFlow, as they were before AutoDist had connections of its own."""
    space = Space(domain, [Rule.exclude("proxy")], communicators=("tcp", "collective"))
    space.families = tuple(family for family in space.families if family.name in ("servers", "collective"))
    space.units = tuple(
        replace(unit, choices=tuple(c for c in unit.choices if is_served(c) or c.communicator == "collective"))
        for unit in space.units
    )
    return space


ALIKE = tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abc")
ONE_SLOW = tuple(Host(name, name, bandwidth_gbps=0.25 if name == "c" else 1.0) for name in "abc")


def accuracy(simulator, data):
    return accuracy_of(simulator.score(data.table, data.domain, len(data)), data.step_s)


@pytest.mark.parametrize(
    "make",
    [
        LinearSimulator,
        ForestSimulator,
        pytest.param(lambda: RecurrentSimulator(steps=200), marks=pytest.mark.slow),
        pytest.param(lambda: GraphAttentionSimulator(steps=300), marks=pytest.mark.slow),
    ],
    ids=["linear", "forest", "rnn", "gat"],
)
def test_what_was_learned_ranks_strategies_that_were_not_seen(make):
    seen, unseen = measured(ONE_SLOW, 100, seed=0), measured(ONE_SLOW, 60, seed=1)
    simulator = make()
    simulator.fit([seen])
    rule, formulas, learned = (accuracy(s, unseen) for s in (RULE, AnalyticSimulator(), simulator))
    assert learned.pairwise > 0.9 * rule.pairwise, "the rule itself does not know the disturbance"
    assert learned.pairwise > formulas.pairwise + 0.1
    assert learned.regret < 0.2


def test_what_was_learned_on_one_cluster_and_model_is_of_use_on_another():
    simulator = LinearSimulator()
    simulator.fit([measured(ONE_SLOW, 100, seed=0), measured(ALIKE, 100, seed=0)])
    other = tuple(Host(name, name, bandwidth_gbps=0.5 if name == "a" else 2.0) for name in "abcd")
    assert accuracy(simulator, measured(other, 60, seed=2, num_variables=20)).pairwise > 0.8


LIKE_NONE_SEEN = {
    "more hosts, two replicas on each, one slow": (
        tuple(Host(name, name, cpus=2, bandwidth_gbps=0.5 if name == "a" else 2.0) for name in "abcd"), 20
    ),
    "more hosts": (tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abcde"), 12),
    "fewer and faster, a small model": (tuple(Host(name, name, bandwidth_gbps=10.0) for name in "ab"), 6),
}  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        LinearSimulator,
        ForestSimulator,
        pytest.param(lambda: RecurrentSimulator(steps=200), marks=pytest.mark.slow),
        pytest.param(lambda: GraphAttentionSimulator(steps=200), marks=pytest.mark.slow),
    ],
    ids=["linear", "forest", "rnn", "gat"],
)
def test_features_that_were_alike_in_all_trials_upset_nothing_elsewhere(make, tmp_path):
    """Trials of one graph on one cluster never tell what a host more would change: how many there are is constant."""
    simulator = make()
    simulator.fit([measured(ALIKE, 100, seed=0)])
    for what, (hosts, num_variables) in LIKE_NONE_SEEN.items():
        there = measured(hosts, 60, seed=2, num_variables=num_variables)
        assert accuracy(simulator, there).pairwise > 0.7, what
    save_simulator(simulator, tmp_path / "learned.npz")
    again = load_simulator(tmp_path / "learned.npz")
    scores = [one.score(there.table, there.domain, len(there)) for one in (simulator, again)]
    np.testing.assert_allclose(*scores, rtol=1e-5)


def test_features_that_vary_by_rounding_alone_are_not_blown_up():
    chance = np.random.default_rng(0)
    seen = np.stack([chance.normal(3, 2, 50), 0.3 + 1e-6 * chance.normal(size=50), np.full(50, 7.0)], 1)
    scaling = Scaling.of(seen.astype(np.float32))
    far = scaling.apply(np.float32([[3, 0.3, 7], [1e6, 1, 0], [-1e6, -1, 100]]))
    assert np.abs(far).max() < 10
    assert np.abs(far[:, 1:]).max() < 1e-4
    wider = scaling.widened(np.float32([[3, 0.3, 8]]))
    assert wider.apply(np.float32([[3, 0.3, 8]]))[0, 2] == 1  # more was learned: it tells something now


def test_files_of_older_versions_have_no_range(tmp_path):
    """They divided by the deviation and a thousandth, which makes thousands of a host more."""
    data = measured(ALIKE, 30, seed=0)
    simulator = RecurrentSimulator(steps=20)
    simulator.fit([data])
    older = {name: value for name, value in simulator.learned.items() if name not in ("low", "high")}
    older["scale"] = encode(data.table, data.domain, len(data)).variables.std((0, 1)) + 1e-3
    again = RecurrentSimulator()
    again.recall(older)
    here = [one.score(data.table, data.domain, len(data)) for one in (simulator, again)]
    np.testing.assert_allclose(*here, atol=0.02)
    hosts, num_variables = LIKE_NONE_SEEN["more hosts"]
    there = measured(hosts, 30, seed=2, num_variables=num_variables)
    assert np.abs(again._input(encode(there.table, there.domain, len(there)))).max() <= 10.1


def test_the_same_seed_learns_the_same():
    data = measured(ALIKE, 40, seed=0)
    scores = []
    for _ in range(2):
        simulator = GraphAttentionSimulator(steps=5, seed=3)
        simulator.fit([data])
        scores.append(simulator.score(data.table, data.domain, len(data)))
    np.testing.assert_array_equal(*scores)


def test_pairs_of_the_ranking_loss():
    times, shards = np.float32([1.0, 1.005, 2.0]), np.int32([9, 1, 1])
    assert set(map(tuple, pairs(times, shards).tolist())) == {(1, 0), (2, 0), (2, 1)}
    # With the penalty, the first counts as slower than the second: it has more shards and is hardly faster.
    assert set(map(tuple, pairs(times, shards, 0.01).tolist())) == {(0, 1), (2, 0), (2, 1)}


def test_figures_of_accuracy():
    times = np.float32([1, 2, 3, 4])
    exact = accuracy_of(times, times)
    assert (exact.pairwise, exact.kendall_tau, exact.regret, exact.error) == (1.0, 1.0, 0.0, 0.0)
    reverse = accuracy_of(-times, times)
    assert (reverse.pairwise, reverse.kendall_tau, reverse.regret) == (0.0, -1.0, 3.0)
    assert accuracy_of(np.float32([1, 1, 1, 1]), times).pairwise == 0.5


def test_some_of_the_measured():
    data = measured(ALIKE, 20, seed=0)
    part = data.take(np.array([7, 3]))
    np.testing.assert_array_equal(part.step_s, data.step_s[[7, 3]])
    np.testing.assert_array_equal(part.partitions, data.partitions[[7, 3]])
    whole, alone = (encode(d.table, d.domain, len(d)) for d in (data, part))
    np.testing.assert_allclose(alone.variables, whole.variables[[7, 3]], rtol=1e-6)
    np.testing.assert_allclose(alone.whole, whole.whole[[7, 3]], rtol=1e-6)


def test_features_are_finite_and_tell_strategies_apart():
    data = measured(ONE_SLOW, 50, seed=0)
    encoding = encode(data.table, data.domain, len(data))
    assert np.isfinite(encoding.variables).all()
    assert np.isfinite(encoding.whole).all()
    assert len(np.unique(encoding.variables.reshape(len(data), -1), axis=0)) > 0.9 * len(data)  # hosts are alike


def test_what_is_tiled_has_features_too():
    """It sends no gradient, so it is no message, and its activations may be more than replicas can share."""
    data = measured(ONE_SLOW, 5, seed=0)
    nothing = np.where(data.table.variable == 1, 0, data.table.messages).astype(np.float32)
    waited = np.where(data.table.variable == 1, np.inf, 0).astype(np.float32)
    tiled = data.table.replaced(messages=nothing, waited_bytes=waited)
    assert np.isfinite(encode(tiled, data.domain, 5).variables).all()


def column_of(name, data):
    return encode(data.table, data.domain, len(data)).variables[:, :, RAW.index(name)]


def test_raw_features_tell_carriers_places_groups_and_cuts_apart():
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(6)))
    domain = Domain.of(g, ResourceSpec(ONE_SLOW))
    builders = {
        "tcp": AllReduce(chunk_size=2, communicator="tcp"),
        "horovod": AllReduce(chunk_size=2, communicator="horovod"),
        "collective": AllReduce(chunk_size=2, communicator="collective"),
        "alone": AllReduce(chunk_size=1, communicator="horovod"),
        "servers": PSLoadBalancing(),
        "cut": PartitionedPS(min_shard_bytes=1),
    }
    strategies = [builder.build(g, domain.spec) for builder in builders.values()]
    data = MeasuredStrategies.of(domain, strategies, [1.0] * len(strategies))
    names = list(builders)
    carriers = np.stack([column_of(name, data)[:3, 0] for name in ("direct", "horovod")], 1)
    assert len(np.unique(carriers, axis=0)) == 3, "each carrier is another one"
    assert column_of("cut_dim", data)[names.index("cut")].all()
    assert not column_of("cut_dim", data)[names.index("servers")].any()
    places = column_of("group_place", data)
    counts = {name: len(np.unique(places[names.index(name)])) for name in names}
    assert counts["alone"] > counts["horovod"] > 1
    assert counts["tcp"] == counts["alone"], "over AutoDist's library tensors of a group don't wait for each other"
    assert column_of("on_fastest", data)[names.index("servers")].any()
    assert not column_of("on_fastest", data)[names.index("tcp")].any()


def test_without_learning_there_is_nothing_to_say():
    data = measured(ALIKE, 3, seed=0)
    with pytest.raises(SimulatorError, match="has not learned anything"):
        accuracy(LinearSimulator(), data)
    with pytest.raises(SimulatorError, match="there is nothing to learn from"):
        LinearSimulator().fit([data.take(np.array([0]))])


SMALL = {
    "linear": LinearSimulator,
    "forest": lambda: ForestSimulator(seed=5),
    "ensemble": EnsembleSimulator,
    "rnn": lambda: RecurrentSimulator(steps=5, seed=5, features="raw"),
    "gat": lambda: GraphAttentionSimulator(steps=5, seed=5),
}


BY_NAME = [pytest.param(name, marks=[pytest.mark.slow] * (name == "rnn")) for name in LEARNED]
"""Its steps in time make what the other neural network is tested with cost twice as much."""


@pytest.mark.parametrize("name", BY_NAME)
def test_strategies_are_told_apart_by_what_a_simulator_makes_of_them(name):
    data = measured(ONE_SLOW, 30, seed=0, num_variables=4)
    simulator = SMALL[name]()
    simulator.fit([data])
    found = simulator.represent(data.table, data.domain, len(data))
    assert found.shape[0] == 30
    assert np.isfinite(found).all()
    assert len(np.unique(found, axis=0)) > 20
    if name in ("rnn", "gat"):
        assert found.shape[1] < data.table.variable.max() * 20, "hidden outputs, not features"


@pytest.mark.parametrize("name", BY_NAME)
def test_what_was_learned_comes_back_from_its_file(name, tmp_path):
    seen, unseen = measured(ONE_SLOW, 30, seed=0, num_variables=4), measured(ONE_SLOW, 20, seed=1, num_variables=4)
    simulator, file = SMALL[name](), tmp_path / "simulator.npz"
    with pytest.raises(SimulatorError, match="has not learned anything"):
        save_simulator(simulator, file)
    simulator.fit([seen])
    save_simulator(simulator, file)
    again = load_simulator(file)
    assert type(again) is LEARNED[name]
    assert all(getattr(again, option) == getattr(simulator, option) for option in simulator.option_names)
    scores = [s.score(unseen.table, unseen.domain, len(unseen)) for s in (simulator, again)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    again.fit([measured(ALIKE, 30, seed=2, num_variables=4)])
    assert not np.allclose(again.score(unseen.table, unseen.domain, len(unseen)), scores[0])


def test_a_forest_goes_on_from_the_constants_that_its_trees_were_grown_with():
    first, second = measured(ONE_SLOW, 30, seed=0), measured(ALIKE, 30, seed=3)
    taught = ForestSimulator()
    taught.fit([first])
    before = taught.learned
    taught.fit([second])
    np.testing.assert_array_equal(taught.learned["constants"], before["constants"])
    np.testing.assert_array_equal(taught.learned["factors"][:30], before["factors"])
    assert len(taught.learned["factors"]) == 60


def test_a_linear_simulator_goes_on_from_what_it_has_learned():
    first, second = measured(ONE_SLOW, 60, seed=0), measured(ONE_SLOW, 2, seed=3)
    fresh, taught = LinearSimulator(), LinearSimulator()
    taught.fit([first])
    before = taught.learned["weights"]
    for simulator in (fresh, taught):
        simulator.fit([second])
    assert not np.array_equal(taught.learned["weights"], before)
    unseen = measured(ONE_SLOW, 60, seed=4)
    known, unknown = (accuracy_of(s.score(unseen.table, unseen.domain, 60), unseen.step_s) for s in (taught, fresh))
    assert known.pairwise > unknown.pairwise


@pytest.mark.parametrize("content", [b"", b"nothing", "a ZIP file", "an empty note"])
def test_a_file_that_holds_no_simulator_is_told(content, tmp_path):
    file = tmp_path / "simulator.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.savez(file, **({"weights": np.zeros(3)} if content == "a ZIP file" else {"about": np.array("{}")}))
    with pytest.raises(SimulatorError, match=r"simulator.npz` is not a file of a simulator"):
        load_simulator(file)
    with pytest.raises(SimulatorError, match="can't be read: No such file"):
        load_simulator(tmp_path / "nowhere.npz")


def test_a_simulator_of_another_version_is_refused(tmp_path):
    simulator, file = LinearSimulator(), tmp_path / "simulator.npz"
    simulator.fit([measured(ALIKE, 10, seed=0)])
    save_simulator(simulator, file)
    with np.load(file) as content:
        arrays = dict(content)
    arrays["about"] = np.array(str(arrays["about"]).replace('"version": 3', '"version": 9'))
    np.savez(file, **arrays)
    with pytest.raises(SimulatorError, match="was made by another version"):
        load_simulator(file)
