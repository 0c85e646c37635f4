"""Files of strategies on another cluster than the one that they were made for."""

import dataclasses
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import (
    AllReduce,
    HierarchicalPS,
    PartitionedPS,
    PSLoadBalancing,
    RetargetedWarning,
    check,
    compose,
    tile_config,
)

from .examples import graph, spec, variable

GRAPH = graph(*(variable(f"w{n}", (64, 10 * (1 + n)), order=n) for n in range(8)))


def used_on(strategy, there, path):
    path.write_text(strategy.to_json())
    return compose(path, GRAPH, there)


@given(
    builder=st.sampled_from([AllReduce(), PSLoadBalancing(), PartitionedPS(), HierarchicalPS()]),
    before=st.integers(1, 4),
    after=st.integers(1, 5),
    cpus=st.integers(1, 2),
)
def test_a_file_of_any_number_of_hosts_fits_any_other(tmp_path_factory, builder, before, after, cpus):
    here, there = (
        spec(*(f"{name}{n}" for n in range(count)), cpus=cpus) for name, count in (("a", before), ("b", after))
    )
    strategy = builder.build(GRAPH, here)
    path = tmp_path_factory.mktemp("files") / "best.json"
    with pytest.warns(RetargetedWarning, match="is of another cluster"):
        found = used_on(strategy, there, path)
    check(found, GRAPH, there)
    assert found.graph.replicas == tuple(device.name for device in there.replicas)
    assert [config.partition for config in found.variables] == [config.partition for config in strategy.variables]
    if before == after:
        again = used_on(found, there, path)
        assert again == found
        assert [s.home and s.home[1:] for _, s in found.synchronizers] == [
            s.home and s.home[1:] for _, s in strategy.synchronizers
        ]


def test_servers_are_balanced_anew_by_what_links_carry(tmp_path):
    strategy = PSLoadBalancing().build(GRAPH, spec("a", "b"))
    there = ResourceSpec((Host("c", "c"), Host("d", "d", bandwidth_gbps=0.1), Host("e", "e"), Host("f", "f")))
    with pytest.warns(RetargetedWarning, match=r"made for a, b, used on 4 hosts, with its servers balanced again"):
        found = used_on(strategy, there, tmp_path / "best.json")
    sizes = dict.fromkeys("cdef", 0)
    for name, synchronizer in found.synchronizers:
        sizes[synchronizer.home[0]] += GRAPH.variable(name).size_bytes
    assert sizes["d"] < min(sizes[name] for name in "cef")


def test_what_fits_is_left_alone_and_a_strategy_in_python_is_no_file(tmp_path):
    strategy = PSLoadBalancing().build(GRAPH, spec("a", "b"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert used_on(strategy, spec("a", "b"), tmp_path / "best.json") == strategy
    with pytest.raises(StrategyError, match="no such device"):
        compose(strategy, GRAPH, spec("c", "d"))


def test_what_is_tiled_is_cut_into_as_many_parts_or_told_why_not(tmp_path):
    here, path = spec("a", "b"), tmp_path / "best.json"
    config = tile_config(GRAPH, here, "w0", 1)
    strategy = AllReduce().build(GRAPH, here)
    strategy = dataclasses.replace(strategy, variables=(config, *strategy.variables[1:]))
    with pytest.warns(RetargetedWarning, match="is of another cluster"):
        assert used_on(strategy, spec("a", "b", "c"), path).variables[0].partition == (1, 3)
    with pytest.raises(StrategyError, match=r"cuts dim 1 of `w0` over 2 replicas, here are 11, .* into 11 parts"):
        used_on(strategy, spec(*"abcdefghijk"), path)


@pytest.mark.parametrize("communicator", ["tcp", "collective"])
def test_what_is_tiled_is_whole_on_one_device(tmp_path, communicator):
    here, path = spec("a", "b"), tmp_path / "best.json"
    strategy = AllReduce(communicator=communicator).build(GRAPH, here)
    strategy = dataclasses.replace(strategy, variables=(tile_config(GRAPH, here, "w0", 1), *strategy.variables[1:]))
    with pytest.warns(RetargetedWarning, match="is of another cluster"):
        found = used_on(strategy, spec("a"), path)
    assert (found.variables[0].partition, len(found.variables[0].shards)) == (None, 1)


def test_a_file_of_another_model_is_refused_as_on_its_own_cluster(tmp_path):
    """It was an internal error on any other cluster."""
    other = graph(variable("other"))
    strategy = AllReduce().build(other, spec("a", "b"))
    with pytest.warns(RetargetedWarning), pytest.raises(StrategyError, match="the graph has no such variable") as error:
        used_on(strategy, spec("a", "b", "c"), tmp_path / "best.json")
    assert "it is of another model" in error.value.hint


def test_devices_that_a_file_leaves_idle_are_told(tmp_path):
    one, two = (ResourceSpec(tuple(Host(name, name, cpus=cpus) for name in "ab")) for cpus in (1, 2))
    strategy = AllReduce().build(GRAPH, one)
    with pytest.warns(RetargetedWarning, match="2 of the cluster's 4 devices compute nothing"):
        assert used_on(strategy, two, tmp_path / "best.json") == strategy


def test_groups_of_replicas_stay_as_many_or_it_is_told_why_not(tmp_path):
    here, path = spec("a", "b", "c", "d"), tmp_path / "best.json"
    strategy = AllReduce(communicator="tcp").build(GRAPH, here)
    config = tile_config(GRAPH, here, "w0", 0, 2, 1)
    strategy = dataclasses.replace(strategy, variables=(config, *strategy.variables[1:]))
    with pytest.warns(RetargetedWarning, match="is of another cluster"):
        found = used_on(strategy, spec(*"efghijkl"), path)
    assert found.groups_of_replicas == 2
    assert found.variables[0].partition == (4, 1)
    assert found.variables[0].synchronizer.group_number == 1
    with pytest.raises(StrategyError, match=r"2 groups .* here are 3 replicas, allowed: a multiple of 2"):
        used_on(strategy, spec(*"efg"), path)
