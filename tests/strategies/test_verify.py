import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.graph import Role
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    Problem,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    check,
    installed_communicators,
    verify,
)

from .examples import ALL, BOTH, fitting_strategies, graph, graphs, spec, specs, variable

D = spec("h0", "h1")
G = graph(variable("a"), variable("b"), variable("slot", role=Role.SLOT))
HOME = PSSynchronizer("h0:CPU:0")
RING = AllReduceSynchronizer(0, communicator="horovod")


def strategy(configs, replicas=("h0:CPU:0", "h1:CPU:0"), communicator="tcp"):
    whole = {name: s for name, s in configs.items() if not isinstance(s, VariableConfig)}
    variables = (VariableConfig.whole(name, whole[name]) if name in whole else configs[name] for name in configs)
    return Strategy(GraphConfig(tuple(replicas), communicator), tuple(variables))


def problems(s, g=G, d=D):
    return verify(s, g, d, available_communicators=ALL)


def test_a_strategy_that_fits_has_no_problems():
    assert problems(strategy({"a": HOME, "b": RING})) == ()
    check(strategy({"a": HOME, "b": HOME}), G, D)


@given(st.data(), graphs(), specs())
def test_mixtures_fit_until_a_collective_runs_beside_a_server(data, g, d):
    s = data.draw(fitting_strategies(g, d))
    assert problems(s, g, d) == ()
    for communicator in BOTH:
        planted = dataclasses.replace(s, graph=dataclasses.replace(s.graph, communicator=communicator))
        assert bool(problems(planted, g, d)) == s.has_servers


@pytest.mark.parametrize(
    "server",
    [
        PSSynchronizer("h0:CPU:0", staleness=2),
        PSSynchronizer("h0:CPU:0", sync=False),
    ],
)
def test_streams_go_with_servers_that_do_not_wait(server):
    s = strategy({"a": server, "b": HOME}, communicator="tcp")
    assert verify(s, G, D, available_communicators=("tcp",)) == ()


def test_our_own_library_carries_everything():
    ours = AllReduceSynchronizer(0, communicator="tcp")
    s = strategy({"a": HOME, "b": ours}, communicator="tcp")
    assert verify(s, G, D, available_communicators=("tcp",)) == ()
    missing = verify(s, G, D, available_communicators=("collective",))
    assert {(p.aspect, p.given) for p in missing} == {
        ("communicator of the graph", "'tcp'"),
        ("communicator of the groups", "'tcp'"),
    }


BESIDE = (
    "(TensorFlow's collectives number the steps of all workers in one sequence, and the clean-up after one worker's "
    "step then aborts what servers compute for another's)"
)


def test_collectives_do_not_run_beside_parameter_servers():
    s = strategy({"a": HOME, "b": AllReduceSynchronizer(0)}, communicator="collective")
    assert [str(p) for p in problems(s)] == [
        "communicator of the graph is 'collective', allowed: 'tcp' together with parameter servers (it does not carry "
        "what servers get and give)",
        f"`b`: communicator is 'collective', allowed: 'horovod' or 'tcp' together with parameter servers {BESIDE}",
    ]


@pytest.mark.parametrize("communicator", ALL)
def test_without_servers_every_communicator_is_fine(communicator):
    for ring in (RING, AllReduceSynchronizer(0)):
        assert problems(strategy({"a": ring, "b": ring}, communicator=communicator)) == ()


GONE = "`queue`, TensorFlow's servers, is no longer there: `tcp` does all that it did"


@pytest.mark.parametrize("configs", [{"a": HOME, "b": RING}, {"a": RING, "b": RING}])
def test_what_earlier_versions_had_says_what_takes_its_place(configs):
    s = strategy(configs, communicator="queue")
    assert Strategy.from_json(s.to_json()) == s
    assert [str(p) for p in problems(s)] == [
        f"communicator is 'queue', allowed: 'tcp' or 'horovod' or 'collective' ({GONE})"
    ]
    ring = AllReduceSynchronizer(0, communicator="queue")
    (found,) = problems(strategy({"a": HOME, "b": ring}))
    assert (found.variable, found.given, found.reason) == ("b", "'queue'", GONE)


def test_servers_of_earlier_versions_are_refused_beside_other_carriers_and_with_what_they_packed():
    found = problems(strategy({"a": HOME, "b": RING}, communicator="horovod"))
    assert [(p.given, p.allowed) for p in found] == [("'horovod'", "'tcp' together with parameter servers")]
    s = strategy({"a": HOME, "b": HOME})
    packed = dataclasses.replace(s, graph=dataclasses.replace(s.graph, pack_bytes=1 << 19))
    assert [(p.aspect, p.given) for p in problems(packed)] == [("`pack_bytes` of the graph", "524288")]


def test_unknown_missing_and_repeated_variables():
    s = strategy({"a": HOME, "slot": HOME, "x": HOME})
    found = problems(dataclasses.replace(s, variables=(*s.variables, s.variables[0])))
    reasons = {
        ("a", "given 2 times", "it would not be clear which one holds"),
        ("slot", "given", "in the graph it is a slot"),
        ("x", "given", "the graph has no such variable"),
        ("b", "missing", "every variable with a gradient needs one"),
    }
    assert {(p.variable, p.given, p.reason) for p in found} == reasons
    assert len(found) == 4


@pytest.mark.parametrize(
    ("replicas", "sentences"),
    [
        ((), ["list of replicas is empty, allowed: at least one device (some device must compute)"]),
        (
            ("h0:CPU:0", "h0:CPU:0", "h1:GPU:0"),
            [
                "replica is 'h0:CPU:0' 2 times, allowed: once (a device holds one copy of the graph)",
                "replica is 'h1:GPU:0', allowed: `h0:CPU:0`, `h1:CPU:0` (the cluster has no such device)",
                "number of replicas on `h1` is 0, allowed: at least 1, or a destination of variables there (its worker "
                "would have nothing to compute and nothing to serve; leave the host out of the spec)",
            ],
        ),
    ],
)
def test_replicas_that_cannot_be_are_refused(replicas, sentences):
    found = problems(strategy({"a": HOME, "b": HOME}, replicas))
    assert [str(p) for p in found] == sentences
    assert {p.variable for p in found} == {None}


def test_a_host_needs_only_one_of_its_devices():
    d = spec("h0", cpus=2, gpus=(0,))
    for replicas in (("h0:CPU:1",), ("h0:GPU:0",), ("h0:CPU:0", "h0:GPU:0")):
        assert problems(strategy({"a": HOME, "b": HOME}, replicas), d=d) == ()


def test_destinations_are_devices_of_the_cluster():
    (found,) = problems(strategy({"a": PSSynchronizer("h2:CPU:0"), "b": HOME}))
    assert str(found) == (
        "`a`: destination is 'h2:CPU:0', allowed: `h0:CPU:0`, `h1:CPU:0` (the cluster has no such device)"
    )


@pytest.mark.parametrize("count", [0, 2])
def test_a_whole_variable_is_one_shard(count):
    (found,) = problems(strategy({"a": VariableConfig("a", (ShardConfig(HOME),) * count), "b": HOME}))
    assert (found.variable, found.aspect, found.given, found.allowed) == ("a", "number of shards", str(count), "1")


def test_negative_staleness():
    found = problems(strategy({"a": PSSynchronizer("h0:CPU:0", staleness=-1), "b": HOME}))
    assert found[0] == Problem("a", "staleness", "-1", "at least 0", "it counts steps that a worker may be ahead")


def test_staleness_bounds_nothing_without_waiting():
    found = problems(strategy({"a": PSSynchronizer("h0:CPU:0", sync=False, staleness=2), "b": HOME}))
    assert "staleness is 2 with `sync` false, allowed: 0" in str(found[0])
    assert not any("with `sync`" in str(p) for p in problems(strategy({"a": dataclasses.replace(HOME, sync=False)})))


@pytest.mark.parametrize("synchronizer", [AllReduceSynchronizer(0, communicator="mpi"), BroadcastSynchronizer("mpi")])
def test_communicators_that_do_not_exist(synchronizer):
    found = problems(strategy({"a": synchronizer, "b": HOME}))
    assert Problem("a", "communicator", "'mpi'", "'tcp' or 'horovod' or 'collective'", "there is no other") in found


def test_group_members_must_agree():
    g = graph(variable("a"), variable("b", dtype="bfloat16"), variable("c", sparse=True), variable("d"))
    found = problems(
        strategy(
            {
                "a": AllReduceSynchronizer(3),
                "b": AllReduceSynchronizer(3, communicator="horovod"),
                "c": AllReduceSynchronizer(3),
                "d": AllReduceSynchronizer(4, communicator="horovod"),
            }
        ),
        g,
    )
    assert [(p.aspect, p.given) for p in found if "group 3" in p.aspect] == [
        ("dtype of group 3", "float32 for `a`, `c` but bfloat16 for `b`"),
        ("communicator of group 3", "collective for `a`, `c` but horovod for `b`"),
        ("kind of gradient of group 3", "dense for `a`, `b` but sparse for `c`"),
    ]
    assert not any("group 4" in p.aspect for p in found)


def test_each_sparse_variable_has_its_own_group():
    g = graph(variable("a", sparse=True), variable("b", sparse=True))
    (found,) = problems(
        strategy(
            {
                "a": AllReduceSynchronizer(0, communicator="horovod"),
                "b": AllReduceSynchronizer(0, communicator="horovod"),
            }
        ),
        g,
    )
    assert (found.aspect, found.given, found.allowed) == ("number of sparse variables in group 0", "2", "1")
    assert (
        problems(
            strategy(
                {
                    "a": AllReduceSynchronizer(0, communicator="horovod"),
                    "b": AllReduceSynchronizer(1, communicator="horovod"),
                }
            ),
            g,
        )
        == ()
    )


def test_groups_are_numbered_from_0():
    (found,) = problems(strategy({"a": AllReduceSynchronizer(-1, communicator="horovod"), "b": HOME}))
    assert (found.variable, found.aspect, found.given) == ("a", "group", "-1")


COUPLED = graph(variable("a", coupled=("a", "b")), variable("b", coupled=("a", "b")), variable("c"))


@pytest.mark.parametrize(
    ("a", "b", "aspect", "given"),
    [
        (HOME, RING, "synchronizer of coupled variables", "PS for `a` but AllReduce for `b`"),
        (
            HOME,
            PSSynchronizer("h1:CPU:0"),
            "destination of coupled variables",
            "h0:CPU:0 for `a` but h1:CPU:0 for `b`",
        ),
    ],
)
def test_coupled_variables_need_one_home(a, b, aspect, given):
    (found,) = problems(strategy({"a": a, "b": b, "c": PSSynchronizer("h1:CPU:0")}), COUPLED)
    assert (found.aspect, found.given) == (aspect, given)
    assert "share a norm, a branch or a slot" in found.reason


def test_coupled_variables_may_be_in_different_groups():
    s = strategy({"a": RING, "b": dataclasses.replace(RING, group=1), "c": HOME})
    assert problems(s, COUPLED) == ()


@pytest.mark.parametrize(
    ("other", "carrier", "allowed"), [(RING, "horovod", "'collective'"), (HOME, "tcp", "none here")]
)
def test_communicators_that_are_missing_here(other, carrier, allowed):
    s = strategy({"a": RING, "b": other}, communicator=carrier)
    found = [str(p) for p in verify(s, G, D, available_communicators=("collective",))]
    assert len(found) == 2
    assert found[0].startswith(f"communicator of the graph is '{carrier}', allowed: {allowed} ({carrier} is not ")
    assert found[1].startswith(f"communicator of the groups is 'horovod', allowed: {allowed} (horovod is not installed")
    assert ("apt-get install g++" in found[0]) is (carrier == "tcp")
    assert verify(s, G, D) == verify(s, G, D, available_communicators=installed_communicators())


def test_check_lists_all_planted_mistakes_at_once():
    g = graph(
        variable("a"),
        variable("b", coupled=("b", "c")),
        variable("c", coupled=("b", "c")),
        variable("d"),
        variable("e"),
    )
    s = strategy(
        {
            "a": PSSynchronizer("nowhere:CPU:0", staleness=-1),
            "b": AllReduceSynchronizer(0, communicator="horovod"),
            "c": VariableConfig.whole("c", HOME, "fp-16"),
            "d": AllReduceSynchronizer(1),
            "x": BroadcastSynchronizer(),
        },
        replicas=("h0:CPU:0", "h9:CPU:0"),
        communicator="collective",
    )
    with pytest.raises(StrategyError) as caught:
        check(dataclasses.replace(s, builder="me"), g, D, available_communicators=("collective",))
    title, *lines = caught.value.message.splitlines()
    assert title == f"strategy {s.id} (built by me) has 11 mistakes:"
    starts = [
        "`x`: config is given,",
        "`e`: config is missing,",
        "replica is 'h9:CPU:0',",
        "`a`: destination is 'nowhere:CPU:0',",
        "`a`: staleness is -1, allowed: at least 0",
        "communicator of the graph is 'collective', allowed: 'tcp'",
        "`d`, `x`: communicator is 'collective', allowed: 'horovod'",
        "synchronizer of coupled variables is AllReduce for `b` but PS for `c`,",
        "number of replicas on `h1` is 0,",
        "`c`: compressor is 'fp-16',",
        "communicator of the groups is 'horovod',",
    ]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f"  - {start}")


def test_check_says_once_what_holds_for_many_variables():
    names = [f"v{i:02}" for i in range(20)]
    g = graph(*(variable(name) for name in names))
    s = strategy(dict.fromkeys(names, PSSynchronizer("h0:CPU:0", staleness=-1)))
    assert len(problems(s, g)) == 20
    with pytest.raises(StrategyError) as caught:
        check(s, g, D)
    assert "`v00`, `v01`, `v02`, `v03`, `v04`, `v05`, `v06`, `v07` and 12 more: staleness is -1" in caught.value.message
    assert "\n" not in caught.value.message
