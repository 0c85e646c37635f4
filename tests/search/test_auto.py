"""The strategy that nobody has to choose: what was measured decides, and where nothing was, a simulator."""

import dataclasses
import functools
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from autodist import carriers
from autodist.errors import StoreError, StrategyError
from autodist.graph import TraceSubject, VariableNames, capture
from autodist.resource_spec import Host, ResourceSpec, Ssh
from autodist.search import (
    Auto,
    Catalogue,
    Failure,
    Measurement,
    Rule,
    Space,
    Trial,
    TrialStore,
    are_alike,
    excerpt,
    export_studies,
    graph_of,
    import_studies,
    known_strategies,
    rehosted,
    sample,
)
from autodist.simulator import Domain, EventSimulator, Profile, ProfileCache
from autodist.strategies import (
    AllReduce,
    PartitionedPS,
    PSLoadBalancing,
    RandomAxisPartitionAR,
    Strategy,
    get,
    installed_communicators,
    verify,
)
from tests.strategies.examples import graph, variable

GRAPH = graph(*(variable(f"w{n}", (1024, 64 * (1 + n)), order=n) for n in range(6)))
TABLE = dataclasses.replace(
    graph(variable("table", (20000, 512), sparse=True), variable("w", (64, 64))), batch_size=4096
)
HERE = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abc"))
ELSEWHERE = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "xyz"))
MANY = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abcdefgh"))
SLOWER = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1) for name in "abc"))
UNEVEN = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1 if name == "e" else 1.0) for name in "abcde"))


@pytest.fixture
def store(tmp_path):
    with TrialStore(tmp_path / "trials.db") as opened:
        yield opened


@functools.cache
def content():
    return content_of(GRAPH)


def content_of(captured):
    with tempfile.TemporaryDirectory() as directory:
        captured.save(f"{directory}/graph.zip")
        return Path(directory, "graph.zip").read_bytes()


def told(store, spec, **times_s):
    """A study in which these builders took so long."""
    study = store.study(content(), GRAPH.step_id, spec, 128, "train.py")
    for number, (name, step_s) in enumerate(times_s.items()):
        outcome = Failure("memory", "killed") if step_s is None else Measurement((step_s,))
        store.add(study, Trial(number, get(name).build(GRAPH, spec), outcome, f"baseline {name}"))
    return study


def chosen(store, spec, **options):
    return Auto(trials=str(store.path), proposals=500, **options).build(GRAPH, spec)


def test_the_fastest_that_was_measured_is_taken(store):
    told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2, PartitionedPS=None)
    found = chosen(store, HERE)
    assert found == PSLoadBalancing().build(GRAPH, HERE)
    assert "the fastest that was measured, 200 ms per step, in study 1" in found.builder


def test_what_trains_otherwise_or_breaks_the_rules_is_not_taken(store):
    study = told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2)
    fast = {"PS(sync=False)": 0.01, "PS(staleness=2)": 0.02, "AllReduce(compressor='FP16')": 0.03}
    for number, (name, step_s) in enumerate(fast.items(), 2):
        store.add(study, Trial(number, get(name).build(GRAPH, HERE), Measurement((step_s,)), "random"))
    assert chosen(store, HERE) == PSLoadBalancing().build(GRAPH, HERE)
    assert "200 ms per step" in chosen(store, HERE).builder
    assert "FP16" not in str(Auto(trials=str(store.path), proposals=500, online=9).candidates(GRAPH, SLOWER))
    store.revised(study, [Rule.exclude("ps")], None)
    assert chosen(store, HERE) == AllReduce().build(GRAPH, HERE)


def test_a_search_that_was_broken_off_decides_nothing(store):
    told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2)
    told(store, HERE, AllReduce=0.1)
    assert chosen(store, HERE) == PSLoadBalancing().build(GRAPH, HERE)


def test_what_leaves_devices_idle_is_no_candidate(store):
    told(store, SLOWER, PSLoadBalancing=0.001)
    larger = ResourceSpec(tuple(dataclasses.replace(host, cpus=2) for host in HERE.hosts))
    candidates = Auto(trials=str(store.path), proposals=500, online=50).candidates(GRAPH, larger)
    assert all(len(strategy.graph.replicas) == 6 for strategy in candidates)


def test_on_hosts_with_other_names_it_is_the_same(store):
    told(store, HERE, AllReduce=0.3, PartitionedPS=0.2)
    assert are_alike(HERE, ELSEWHERE)
    assert chosen(store, ELSEWHERE) == PartitionedPS().build(GRAPH, ELSEWHERE)


def test_trials_of_another_cluster_or_batch_decide_nothing(store):
    told(store, SLOWER, PSLoadBalancing=0.001)
    assert not are_alike(HERE, SLOWER)
    assert "expected to be number" in chosen(store, HERE).builder
    told(store, HERE, PSLoadBalancing=0.001)
    larger = dataclasses.replace(GRAPH, batch_size=256)
    assert "expected" in Auto(trials=str(store.path), proposals=500).build(larger, HERE).builder


def test_trials_of_another_model_with_the_same_variables_decide_nothing(store):
    def model(activation):
        w = tf.Variable(tf.ones([32, 32]), name="w")

        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(activation(x @ w))
            w.assign_sub(tape.gradient(loss, w))
            return loss

        captured = capture(step, [tf.TensorSpec([128, 32])], VariableNames()).graph
        return dataclasses.replace(captured, batch_size=128)

    one, other = model(tf.nn.relu), model(tf.nn.tanh)
    for number, measured in enumerate((one, other)):
        study = store.study(content_of(measured), measured.step_id, HERE, 128, "train.py")
        assert graph_of(store, study).step_id == measured.step_id, "its own graph, not that of an earlier study"
        if number == 0:
            store.add(study, Trial(0, PSLoadBalancing().build(measured, HERE), Measurement((0.2,)), "random"))
            assert "the fastest that was measured" in chosen_for(store, one)
            assert "expected" in chosen_for(store, other)


def chosen_for(store, subject):
    return Auto(trials=str(store.path), proposals=100).build(subject, HERE).builder


@pytest.mark.parametrize(
    ("subject", "spec"),
    [(GRAPH, HERE), (GRAPH, SLOWER), (TABLE, MANY), (GRAPH, UNEVEN)],
    ids=["alike", "slower", "table", "uneven"],
)
def test_without_trials_what_is_not_much_faster_yields_to_what_users_know(subject, spec, store):
    found, _, known, (mine, other, *known_s) = without_trials(subject, spec, store)
    assert found in known
    assert mine == min(known_s)
    assert other > 0.8 * mine
    assert not verify(found, subject, spec)


def test_without_trials_what_is_faster_by_the_margin_is_preferred_to_what_users_know(store, monkeypatch):
    monkeypatch.setattr("autodist.search._auto._CAUTION", 0.0)  # what users know is seldom off by its 20 %
    found, _, known, (mine, _, *known_s) = without_trials(GRAPH, UNEVEN, store)
    assert found not in known
    assert mine < min(known_s)
    assert not verify(found, GRAPH, UNEVEN)


def without_trials(subject, spec, store):
    """The best two, what users know, and what all of them are expected to take."""
    # All proposals are looked at, however slow the machine is.
    found, second = Auto(trials=str(store.path), proposals=2000, time_s=60, online=2).candidates(subject, spec)
    domain = Domain.of(subject, spec)
    known = [strategy for _, strategy in known_strategies(domain) if isinstance(strategy, Strategy)]
    return found, second, known, EventSimulator().predict([found, second, *known], domain)


@pytest.fixture
def no_library(monkeypatch):
    """As where AutoDist was installed without a compiler: its own library has slow hosts sum less."""
    monkeypatch.setattr("autodist.carriers._tcp.is_built", lambda: False)
    installed_communicators.cache_clear()
    yield
    monkeypatch.undo()
    installed_communicators.cache_clear()


def test_it_chooses_only_what_may_be_carried(store):
    told(store, HERE, **{"AllReduce(communicator='collective')": 0.1, "PSLoadBalancing(communicator='tcp')": 0.2})
    everything, encrypted = Auto(trials=str(store.path)), Auto(trials=str(store.path)).confined(["tcp"])
    assert everything.confined(carriers.names()) is everything
    assert "collective" in everything.build(GRAPH, HERE).carriers
    assert get(str(encrypted)) == encrypted
    assert encrypted.build(GRAPH, HERE) == PSLoadBalancing(communicator="tcp").build(GRAPH, HERE)

    for allowed in ({"tcp"}, {"horovod", "tcp"}):  # nothing was measured there
        confined = Auto(trials=str(store.path), proposals=500, online=4).confined(allowed)
        for candidate in confined.candidates(GRAPH, ELSEWHERE if allowed == {"tcp"} else SLOWER):
            assert allowed.issuperset(candidate.carriers)
    with pytest.raises(StrategyError, match="`over` is 'pigeons', allowed: some of"):
        Auto(over="pigeons")


def test_what_is_tried_online_is_different_and_fits(store):
    candidates = Auto(trials=str(store.path), proposals=500, online=4).candidates(GRAPH, HERE)
    assert len({strategy.id for strategy in candidates}) == 4
    assert all(not verify(strategy, GRAPH, HERE) for strategy in candidates)
    assert not any(strategy.is_relaxed for strategy in candidates)
    told(store, HERE, PSLoadBalancing=0.2)
    assert len(Auto(trials=str(store.path), online=4).candidates(GRAPH, HERE)) == 1


def test_a_file_of_studies_serves_as_well(store, tmp_path):
    told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2)
    told(store, SLOWER, AllReduce=0.4, PartitionedPS=None)
    rules, profile = [Rule.exclude("partition")], Profile(0.1, {"w0": 0.0}, {"w0": 0.1}, 128, "measured")
    store.revised(store.studies()[0], rules, profile)
    file = tmp_path / "studies.zip"
    export_studies(store, store.studies(), file)
    assert Auto(trials=str(file)).build(GRAPH, HERE) == PSLoadBalancing().build(GRAPH, HERE)
    with TrialStore(tmp_path / "other.db") as other:
        again = import_studies(other, file)
        assert [other.trials(study) for study in again] == [store.trials(study) for study in store.studies()]
        assert again == store.studies()


def test_what_was_the_fastest_on_another_cluster_is_a_candidate(store):
    study = told(store, SLOWER, AllReduce=0.3)
    best = RandomAxisPartitionAR(seed=5).build(GRAPH, SLOWER)
    store.add(study, Trial(1, best, Measurement((0.1,)), "random"))
    candidates = Auto(trials=str(store.path), proposals=500, online=100).candidates(GRAPH, ELSEWHERE)
    [found] = [strategy for strategy in candidates if "the fastest of study 1" in strategy.builder]
    assert found == rehosted(best, SLOWER, ELSEWHERE)
    assert not verify(found, GRAPH, ELSEWHERE)


def test_it_goes_by_a_profile_that_was_measured(store):
    names = [variable.name for variable in GRAPH.trainable]
    measured = Profile(2.0, dict.fromkeys(names, 0.0), dict.fromkeys(names, 2.0), 128, "measured")
    assert "profile: estimated" in chosen(store, HERE).builder
    store.study(content(), GRAPH.step_id, SLOWER, 128, "train.py", (), measured)
    assert "profile: measured" in chosen(store, HERE).builder


def test_the_newest_profile_in_the_cache_will_do_and_a_damaged_one_does_no_harm(store, tmp_path, monkeypatch):
    w = tf.Variable(tf.zeros((512, 64)), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    captured = capture(step, [tf.TensorSpec((32, 512))], VariableNames()).graph
    monkeypatch.setenv("AUTODIST_CACHE", str(tmp_path))
    auto = Auto(trials=str(store.path), proposals=500)
    measured = Profile(0.2, {"w": 0.0}, {"w": 0.2}, 32, "measured")
    path = ProfileCache.of_user().save(captured, TraceSubject("a processor", 32, ((32, 512),)), measured)
    assert "profile: measured" in auto.build(captured, HERE).builder
    path.write_text("{")
    assert "profile: estimated" in auto.build(captured, HERE).builder


def test_a_file_of_studies_is_read_once(store, tmp_path, monkeypatch):
    told(store, SLOWER, AllReduce=0.4)
    export_studies(store, store.studies(), tmp_path / "studies.zip")
    read = []
    monkeypatch.setattr("autodist.search._auto.import_studies", lambda *given: read.extend(import_studies(*given)))
    assert (
        "the event simulation" in Auto(trials=str(tmp_path / "studies.zip"), proposals=500).build(GRAPH, HERE).builder
    )
    assert len(read) == 1


def test_files_of_studies_tell_nobody_how_to_log_in(store, tmp_path):
    ssh = Ssh(username="me", key_file="/home/me/.ssh/key", shared_envs=(("TOKEN", "hidden"),))
    hosts = [dataclasses.replace(host, env=(("KEY", "secret"),), ssh=ssh, directory="/mine") for host in HERE.hosts]
    told(store, ResourceSpec(tuple(hosts)), AllReduce=0.3)
    export_studies(store, store.studies(), tmp_path / "studies.zip")
    with zipfile.ZipFile(tmp_path / "studies.zip") as archive:
        text = archive.read("0/study.json").decode()
    assert not [word for word in ("secret", "hidden", "me/.ssh", "/mine") if word in text]
    with TrialStore(tmp_path / "other.db") as other:
        import_studies(other, tmp_path / "studies.zip")
        assert chosen(other, HERE) == AllReduce().build(GRAPH, HERE)


def test_of_several_files_all_are_taken_or_none(store, tmp_path):
    told(store, HERE, AllReduce=0.3)
    good, bad = tmp_path / "good.zip", tmp_path / "bad.zip"
    export_studies(store, store.studies(), good)
    content = bytearray(good.read_bytes())
    middle = content.index(b"trials.jsonl") + 20
    content[middle : middle + 20] = b"damaged, all of this"
    bad.write_bytes(content)
    with TrialStore(tmp_path / "other.db") as other:
        with pytest.raises(StoreError, match=r"bad.zip` holds no studies"):
            import_studies(other, good, bad)
        assert other.studies() == []
        assert len(import_studies(other, good, good)) == 2


@pytest.mark.parametrize("content", [b"", b"PK nothing"])
def test_a_file_that_is_no_study_is_told(content, store, tmp_path):
    file = tmp_path / "studies.zip"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="holds no studies"):
        import_studies(store, file)
    with pytest.raises(StoreError, match=r"there are no trials in `.*nowhere.db`"):
        Auto(trials=str(tmp_path / "nowhere.db")).build(GRAPH, HERE)


def test_its_text_is_read_back_and_its_mistakes_are_told():
    assert get("auto(online=3)") == Auto(online=3)
    assert get(str(Auto(trials="a b.db", seed=4))) == Auto(trials="a b.db", seed=4)
    with pytest.raises(StrategyError, match=r"auto has 2 mistakes"):
        Auto(proposals=0, online=0)


def test_one_replica_needs_no_choice(store):
    alone = ResourceSpec((Host("a", "a"),))
    assert chosen(store, alone) == AllReduce().build(GRAPH, alone)


def test_rehosting_moves_servers_and_replicas():
    moved = rehosted(PSLoadBalancing().build(GRAPH, HERE), HERE, ELSEWHERE)
    assert moved == PSLoadBalancing().build(GRAPH, ELSEWHERE)


def test_it_learns_from_a_bounded_number_of_trials(store):
    several = [graph(*(variable(f"w{n}", (512, 64 * m), order=n) for n in range(4))) for m in range(1, 7)]
    learn(store, several[0], 80)
    assert "what 60 trials of others teach" in chosen(store, HERE).builder
    for other in several[1:]:
        learn(store, other, 80)
    assert "what 300 trials of others teach" in chosen(store, HERE).builder


def learn(store, other, count):
    """A study of another graph, with so many strategies; a search measures none twice."""
    space = Space(Domain.of(other, HERE))
    catalogue = Catalogue.of(space)
    drawn = sample(space, catalogue, 2 * count, np.random.default_rng(0))
    several = dict.fromkeys(drawn.strategy(number, space, catalogue) for number in range(2 * count))
    strategies = list(several)[:count]
    study = store.study(content_of(other), other.step_id, HERE, 128, "train.py")
    store.add(study, *(Trial(n, s, Measurement((0.1 + 0.01 * n,)), "random") for n, s in enumerate(strategies)))


def test_an_excerpt_is_small_tells_no_secrets_and_leads_to_the_same_choice(store, tmp_path):
    secret = ResourceSpec(tuple(dataclasses.replace(host, env=(("TOKEN", "hidden"),)) for host in HERE.hosts))
    told(store, secret, AllReduce=0.3, PSLoadBalancing=0.2, PartitionedPS=None)
    for width in range(1, 8):
        learn(store, graph(*(variable(f"w{n}", (512, 64 * width), order=n) for n in range(4))), 80)
    path = tmp_path / "some.db"
    excerpt(store, path)
    assert b"hidden" not in path.read_bytes()
    with TrialStore(path) as copy:
        assert [(s.graph, s.batch_size, s.label) for s in copy.studies()] == [
            (s.graph, s.batch_size, s.label) for s in store.studies()
        ]
        assert copy.trials(copy.studies()[0]) == [t for t in store.trials(store.studies()[0]) if t.number < 2]
        counts = [len(copy.trials(study)) for study in copy.studies()]
        fastest = [min(copy.measured(study), key=lambda known: known.step_s).number for study in copy.studies()]
    assert counts[-1] >= 60
    assert sum(counts) <= 300 + 10 * len(counts)
    assert fastest == [1, *[0] * 7]
    assert Auto(trials=str(path)).build(GRAPH, HERE) == chosen(store, HERE)


def test_the_users_own_store_may_be_damaged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "trials.db").write_bytes(b"no store" * 1000)
    with pytest.warns(UserWarning, match="the strategy is chosen without trials"):
        found = Auto(proposals=500).build(GRAPH, HERE)
    assert "no trials are known" in found.builder
    with pytest.raises(StoreError, match="damaged"):
        Auto(trials="runs/trials.db").build(GRAPH, HERE)


def test_a_damaged_graph_in_the_users_own_store_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with TrialStore("runs/trials.db") as store:
        study = store.study(b"no graph", "another", SLOWER, 128, "train.py")
        several = [get(name).build(GRAPH, SLOWER) for name in ("AllReduce", "PSLoadBalancing")]
        store.add(study, *(Trial(n, s, Measurement((0.1,)), "random") for n, s in enumerate(several)))
    with pytest.warns(UserWarning, match="the strategy is chosen without trials"):
        assert "no trials are known" in Auto(proposals=500).build(GRAPH, HERE).builder


def test_where_hosts_have_several_replicas_their_gradients_may_be_summed_first():
    twice = ResourceSpec(tuple(Host(name, name, cpus=2, bandwidth_gbps=1.0) for name in "ab"))
    known = dict(known_strategies(Domain.of(GRAPH, twice)))
    assert set(known) - set(known_strategies_of(HERE)) == {
        "HierarchicalPS",
        "PartitionedPS(stations=True)",
    }
    stations = {s.synchronizer.transfer for v in known["PartitionedPS(stations=True)"].variables for s in v.shards}
    assert stations == {("a:CPU:0", "b:CPU:0")}
    summed, apart = (
        float(EventSimulator().predict([known[name]], Domain.of(GRAPH, twice))[0])
        for name in ("PartitionedPS(stations=True)", "PartitionedPS")
    )
    assert summed < apart


def known_strategies_of(spec):
    return dict(known_strategies(Domain.of(GRAPH, spec)))
