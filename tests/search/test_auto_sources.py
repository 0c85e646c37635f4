"""Where `auto` finds what was measured: files of studies, profiles, and the user's own store."""

import dataclasses
import zipfile

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
    Measurement,
    Rule,
    Space,
    Trial,
    TrialStore,
    excerpt,
    export_studies,
    floor_of,
    import_studies,
    known_strategies,
    retargeted,
    sample,
)
from autodist.simulator import Domain, EventSimulator, Profile, ProfileCache
from autodist.strategies import (
    AllReduce,
    PSLoadBalancing,
    RandomAxisPartitionAR,
    get,
    verify,
)
from tests.strategies.examples import graph, variable

from .auto_stores import ELSEWHERE, GRAPH, HERE, SLOWER, chosen, content, content_of, told


def test_what_is_one_strategy_by_two_names_is_tried_once():
    """Parallax is all-reduce where no gradient is sparse."""
    here = graph(variable("w", (8, 8)), variable("b", (8,)))
    candidates = Auto(proposals=500, online=100).candidates(here, HERE)
    assert len({strategy.id for strategy in candidates}) == len(candidates)
    assert any("AllReduce" in strategy.builder for strategy in candidates)


def test_what_is_tried_online_is_different_and_fits(store):
    candidates = Auto(trials=str(store.path), proposals=500, online=4).candidates(GRAPH, HERE)
    assert len({strategy.id for strategy in candidates}) == 4
    assert all(not verify(strategy, GRAPH, HERE) for strategy in candidates)
    assert not any(strategy.is_asynchronous for strategy in candidates)
    told(store, HERE, PSLoadBalancing=0.2)
    assert len(Auto(trials=str(store.path), online=4).candidates(GRAPH, HERE)) == 1


def test_a_file_of_studies_serves_as_well(store, tmp_path):
    told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2)
    told(store, SLOWER, AllReduce=0.4, PartitionedPS=None)
    rules, profile = [Rule.exclude("partition")], Profile(0.1, {"w0": 0.0}, {"w0": 0.1}, 128, "measured")
    store.revised(store.studies()[0], rules, profile)
    store.add_floor(store.studies()[0], Measurement((0.15,)))
    store.add_floor(store.studies()[0], Measurement((0.25,)))
    file = tmp_path / "studies.zip"
    export_studies(store, store.studies(), file)
    assert Auto(trials=str(file)).build(GRAPH, HERE) == PSLoadBalancing().build(GRAPH, HERE)
    with TrialStore(tmp_path / "other.db") as other:
        again = import_studies(other, file)
        assert [other.trials(study) for study in again] == [store.trials(study) for study in store.studies()]
        assert again == store.studies()
        assert [other.floor(study) for study in again] == [store.floor(study) for study in store.studies()]
        assert [[one.step_s for one in other.floor(study)] for study in again] == [[0.15, 0.25], []]
        assert floor_of(other, again[1:]) is None
        assert floor_of(other, again) == pytest.approx((0.15 * 0.25) ** 0.5)


def test_what_was_the_fastest_on_another_cluster_is_a_candidate(store):
    study = told(store, SLOWER, AllReduce=0.3)
    best = RandomAxisPartitionAR(seed=5).build(GRAPH, SLOWER)
    store.add(study, Trial(1, best, Measurement((0.1,)), "random"))
    candidates = Auto(trials=str(store.path), proposals=500, online=100).candidates(GRAPH, ELSEWHERE)
    [found] = [strategy for strategy in candidates if "the fastest of study 1" in strategy.builder]
    assert found == retargeted(best, SLOWER, ELSEWHERE)
    assert not verify(found, GRAPH, ELSEWHERE)


def test_no_floor_is_above_what_a_strategy_takes(store):
    study = told(store, HERE, AllReduce=0.3, PSLoadBalancing=0.2)
    store.add_floor(study, Measurement((0.25,)))
    assert floor_of(store, [study]) == 0.2


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
    moved = retargeted(PSLoadBalancing().build(GRAPH, HERE), HERE, ELSEWHERE)
    assert moved == PSLoadBalancing().build(GRAPH, ELSEWHERE)


def test_it_learns_from_a_bounded_number_of_trials(store):
    several = [graph(*(variable(f"w{n}", (512, 64 * m), order=n) for n in range(4))) for m in range(1, 7)]
    learn(store, several[0], 80)
    assert "calibrated by 60 trials" in chosen(store, HERE).builder
    for other in several[1:]:
        learn(store, other, 80)
    assert "calibrated by 300 trials" in chosen(store, HERE).builder


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
    store.add_floor(store.studies()[0], Measurement((0.15,)))
    excerpt(store, path)
    assert b"hidden" not in path.read_bytes()
    with TrialStore(path) as copy:
        assert [(s.graph, s.batch_size, s.label) for s in copy.studies()] == [
            (s.graph, s.batch_size, s.label) for s in store.studies()
        ]
        assert copy.trials(copy.studies()[0]) == [t for t in store.trials(store.studies()[0]) if t.number < 2]
        assert copy.floor(copy.studies()[0]) == store.floor(store.studies()[0])
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


def test_what_is_not_installed_is_named_in_a_line(monkeypatch):
    monkeypatch.setattr(carriers, "installed_communicators", lambda: ("tcp", "collective"))
    known = known_strategies_of(HERE)
    why = {known[f"{system}(communicator='horovod')"] for system in ("AllReduce", "Parallax")}
    assert why == {"Horovod is not installed; `autodist env` says what to do"}


def known_strategies_of(spec):
    return dict(known_strategies(Domain.of(GRAPH, spec)))
