import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.strategies import AllReduce, PSLoadBalancing, Strategy, StrategyBuilder, get, verify
from autodist.strategies._builders import _all_reduce as all_reduce_module

from .examples import BOTH, graph, graphs, spec, specs, variable

any_builders = st.one_of(
    st.just(PSLoadBalancing()),
    st.builds(AllReduce, st.integers(1, 6), st.sampled_from(["auto", "horovod", "collective"])),
)


@given(any_builders, graphs(), specs())
def test_every_result_fits(builder, g, d):
    strategy = builder.build(g, d)
    assert verify(strategy, g, d, available_communicators=BOTH) == ()
    assert [config.variable for config in strategy.variables] == [v.name for v in g.trainable]
    assert strategy.graph.replicas == tuple(device.name for device in d.replicas)
    assert Strategy.from_json(strategy.to_json()) == strategy


@given(any_builders, graphs(), specs())
def test_builders_are_pure_functions(builder, g, d):
    again = get(str(builder))
    assert again == builder
    assert again.build(g, d) == builder.build(g, d)
    assert builder.build(g, d).builder == str(builder)


def _loads(strategy, g, d):
    loads = {host.cpu_devices[0].name: 0 for host in d.hosts}
    for config in strategy.variables:
        loads[config.synchronizer.destination] += g.variable(config.variable).size_bytes
    return loads


def _units(g):
    return {frozenset(v.coupled or (v.name,)) for v in g.trainable}


@given(graphs(), specs())
def test_server_loads_differ_by_at_most_the_largest_unit(g, d):
    loads = _loads(PSLoadBalancing().build(g, d), g, d).values()
    largest = max((sum(g.variable(name).size_bytes for name in unit) for unit in _units(g)), default=0)
    assert max(loads) <= min(loads) + largest


def test_servers_fill_largest_first_ties_by_name():
    sizes = {"c": 30, "b": 30, "a": 10, "d": 50, "e": 30}
    g = graph(*(variable(name, (size,)) for name, size in sizes.items()))
    strategy = PSLoadBalancing().build(g, spec("h0", "h1", cpus=2))
    homes = {config.variable: config.synchronizer.destination for config in strategy.variables}
    # d (50) to h0, then the 30s by name: b to h1, c to h1 (30 < 50), e to h0 (50 < 60), a to h1 (60 < 80).
    assert homes == {"d": "h0:CPU:0", "b": "h1:CPU:0", "c": "h1:CPU:0", "e": "h0:CPU:0", "a": "h1:CPU:0"}
    assert strategy.graph.communicator == "queue"


def test_coupled_variables_count_and_move_together():
    coupled = ("a", "b")
    g = graph(variable("a", (20,), coupled=coupled), variable("b", (20,), coupled=coupled), variable("c", (30,)))
    strategy = PSLoadBalancing().build(g, spec("h0", "h1"))
    homes = {config.variable: config.synchronizer.destination for config in strategy.variables}
    assert homes == {"a": "h0:CPU:0", "b": "h0:CPU:0", "c": "h1:CPU:0"}


@given(graphs(), specs(), st.integers(1, 5))
def test_groups_partition_the_variables(g, d, chunk_size):
    groups = AllReduce(chunk_size, "collective").build(g, d).groups
    members = list(itertools.chain.from_iterable(groups.values()))
    assert sorted(members) == sorted(v.name for v in g.trainable)
    assert list(groups) == list(range(len(groups)))
    assert all(len(names) <= chunk_size for names in groups.values())


def test_groups_follow_the_backward_pass_and_split_by_dtype_and_kind():
    g = graph(
        variable("first", order=4),
        variable("unused", order=-1),
        variable("half", dtype="bfloat16", order=3),
        variable("table", sparse=True, order=2),
        variable("table2", sparse=True, order=1),
        variable("last", order=0),
    )
    strategy = AllReduce(chunk_size=3, communicator="horovod").build(g, spec("h0"))
    assert strategy.groups == {
        0: ("last",),
        1: ("table2",),
        2: ("table",),
        3: ("half",),
        4: ("first", "unused"),
    }
    assert {config.synchronizer.communicator for config in strategy.variables} == {"horovod"}
    assert strategy.graph.communicator == "horovod"


@pytest.mark.parametrize(("installed", "chosen"), [(BOTH, "horovod"), (("collective",), "collective")])
def test_auto_takes_the_first_communicator_that_is_installed(monkeypatch, installed, chosen):
    monkeypatch.setattr(all_reduce_module, "installed_communicators", lambda: installed)
    strategy = AllReduce().build(graph(variable("w")), spec("h0"))
    assert strategy.graph.communicator == strategy.config("w").synchronizer.communicator == chosen


@pytest.mark.parametrize("chunk_size", [0, -1, True, 1.5, "2", None])
def test_a_wrong_chunk_size_is_refused(chunk_size):
    with pytest.raises(StrategyError, match=r"`chunk_size` is .*, allowed: a whole number of at least 1"):
        AllReduce(chunk_size=chunk_size)


def test_all_wrong_parameters_are_named():
    with pytest.raises(StrategyError) as caught:
        AllReduce(chunk_size=0, communicator="mpi")
    assert "`chunk_size` is 0" in caught.value.message
    assert "`communicator` is 'mpi', allowed: `auto` or `horovod` or `collective`" in caught.value.message


@pytest.mark.parametrize("builder", [PSLoadBalancing, AllReduce])
def test_summaries_are_one_line(builder):
    assert issubclass(builder, StrategyBuilder)
    assert builder.summary().endswith(".")
    assert "\n" not in builder.summary()
