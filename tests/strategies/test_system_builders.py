"""Builders that do what a known system does."""

from hypothesis import given
from hypothesis import strategies as st

from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import (
    AllReduceSynchronizer,
    BytePS,
    HierarchicalPS,
    Horovod,
    Parallax,
    shard_slices,
    verify,
)
from autodist.strategies._builders import _collectives

from .examples import BOTH, graph, graphs, spec, specs, variable


def test_horovod_fuses_by_bytes():
    sizes = {"a": 6, "b": 4, "c": 1, "d": 40, "e": 5, "f": 5}
    g = graph(*(variable(name, (size,), order=order) for order, (name, size) in enumerate(sizes.items())))
    strategy = Horovod(fusion_bytes=40, communicator="horovod").build(g, spec("h0", "h1"))
    assert strategy.groups == {0: ("a", "b"), 1: ("c",), 2: ("d",), 3: ("e", "f")}


@given(graphs(), st.integers(1, 4000))
def test_no_fused_buffer_is_larger_than_allowed(g, fusion_bytes):
    for members in Horovod(fusion_bytes=fusion_bytes).build(g, spec("h0")).groups.values():
        total = sum(g.variable(name).size_bytes for name in members)
        assert total <= fusion_bytes or len([name for name in members if g.variable(name).size_bytes]) == 1
        assert len(members) == 1 or not any(g.variable(name).is_sparse for name in members)


def test_byteps_cuts_parts_of_a_fixed_size_and_spreads_them():
    g, d = graph(variable("w", (10, 256)), variable("s", ())), spec("h0", "h1", cpus=2)
    strategy = BytePS(part_bytes=4 * 1024, compressor="FP16").build(g, d)
    config = strategy.config("w")
    assert config.partition == ((4, 4, 2), 1)
    assert {shard.synchronizer.destination for shard in config.shards} == {"h0:CPU:0", "h1:CPU:0"}
    assert {shard.synchronizer.transfer for shard in config.shards} == {("h0:CPU:0", "h1:CPU:0")}
    assert {shard.compressor for shard in config.shards} == {"FP16"}
    assert BytePS(part_bytes=1, max_shards=3).build(g, d).config("w").partition == (3, 1)


@given(graphs(), specs(), st.integers(1, 300))
def test_no_part_is_larger_than_allowed_but_single_rows(g, d, part_bytes):
    strategy = BytePS(part_bytes=part_bytes, max_shards=100).build(g, d)
    for config in strategy.variables:
        v = g.variable(config.variable)
        if config.partition is not None:
            row_bytes = v.size_bytes // v.shape[0]
            rows = [shard.size[0] for shard in shard_slices(config.partition, v.shape)]
            assert all(count == 1 or count * row_bytes <= part_bytes for count in rows)
            assert len(set(rows[:-1])) == 1


def test_hosts_with_several_replicas_have_a_station_on_the_way():
    g = graph(variable("w"))
    mixed = ResourceSpec((Host("h0", "h0", gpus=(0, 1)), Host("h1", "h1")))
    for d, transfer in ((spec("h0", "h1"), ()), (mixed, ("h0:CPU:0",))):
        assert HierarchicalPS().build(g, d).config("w").synchronizer.transfer == transfer


def parallax(**options):
    g = graph(
        variable("table", (100, 64), sparse=True, order=2),
        variable("kernel", (64, 64), order=1),
        variable("bias", (64,), order=0),
    )
    return Parallax(**options).build(g, spec("h0", "h1"))


def test_parallax_shares_tables_and_reduces_the_rest(monkeypatch):
    monkeypatch.setattr(_collectives, "installed_communicators", lambda: BOTH)
    strategy = parallax()
    assert strategy.config("table").partition == (2, 1)
    assert [shard.synchronizer.destination for shard in strategy.config("table").shards] == ["h0:CPU:0", "h1:CPU:0"]
    assert strategy.groups == {0: ("kernel", "bias")}
    assert strategy.config("bias").synchronizer.communicator == "horovod"
    assert strategy.graph.communicator == "tcp"


def test_parallax_without_our_own_library_reduces_what_has_no_tables(monkeypatch):
    monkeypatch.setattr(_collectives, "installed_communicators", lambda: ("collective",))
    d = spec("h0", "h1")
    g = graph(variable("table", (100, 64), sparse=True), variable("kernel"))
    found = verify(Parallax().build(g, d), g, d, available_communicators=("collective",))
    assert [p.given for p in found if "not installed" in p.reason] == ["'tcp'"]
    dense = Parallax().build(graph(variable("w")), spec("h0", "h1"))
    assert dense.config("w").synchronizer == AllReduceSynchronizer(0, communicator="collective")
    assert dense.builder == "Parallax()"
    assert parallax(communicator="horovod").config("bias").synchronizer.communicator == "horovod"


def test_parallax_has_no_rounds_of_messages_with_servers(monkeypatch):
    monkeypatch.setattr(_collectives, "installed_communicators", lambda: BOTH)
    strategy = parallax(compressor="PowerSGD(rank=2)")
    assert strategy.config("kernel").shards[0].compressor == "PowerSGD(rank=2)"
    assert {shard.compressor for shard in strategy.config("table").shards} == {None}
