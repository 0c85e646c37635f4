"""Layouts of the variables of real training steps."""

from dataclasses import replace
from functools import cache
from math import isfinite, prod

import keras
import pytest
import tensorflow as tf

from autodist.errors import SpaceEmpty, SpecError, StrategyError
from autodist.graph import Role, VariableNames, capture
from autodist.resource_spec import Mesh, ResourceSpec
from autodist.search.tilings import Tiled, coarsen, plan_tiling
from autodist.simulator import Domain, device_needs
from autodist.strategies.tiling import TensorLayout, TilingPlan, layout_problems

from .keras_steps import convolutional, dense, recurrent, transformer


def mesh(*lengths):
    axes = tuple(zip(("host", "device"), lengths, strict=False))
    return Mesh(axes, tuple(f"d{n}" for n in range(prod(lengths))))


@cache
def images():
    return convolutional(24)


@cache
def sentences():
    return transformer(2, vocabulary=4096)


def weights(graph):
    return sum(v.size_bytes for v in graph.trainable)


def test_large_batches_are_what_is_cut():
    graph = dense(4096, 256, 256, 256)
    plan = plan_tiling(graph, mesh(4))
    assert plan.moved_bytes == 2 * 3 * weights(graph), "an all-reduce"
    assert plan.cut_dims() == {}, "what is cut is gathered for use"
    assert plan.whole == ()


def test_large_layers_are_cut_in_turn():
    graph = dense(8, 512, 512, 512, 512)
    plan = plan_tiling(graph, mesh(4))
    dims = [plan.cut_dims()[f"sequential/d{n}/kernel"] for n in range(3)]
    assert set(dims) == {0, 1}, "what one sums the next one takes"
    assert plan.moved_bytes < weights(graph) / 4
    assert plan_tiling(graph, mesh(2, 2)).moved_bytes < weights(graph) / 4
    assert TilingPlan.from_json(plan.to_json()) == plan


def test_all_layouts_fit_and_slots_lie_as_their_variables():
    dense_graph = dense(6, 18, 7, optimizer=keras.optimizers.Adam())
    for graph, lengths in ((images(), (3,)), (sentences(), (2,)), (dense_graph, (2, 3)), (dense_graph, (3,))):
        plan = plan_tiling(graph, mesh(*lengths))
        assert isfinite(plan.moved_bytes)
        assert plan.variables.keys() == {v.name for v in graph.variables}
        for variable in graph.variables:
            assert not layout_problems(variable.name, plan.variables[variable.name], variable.shape, mesh(*lengths))
        for variable in graph.trainable:
            for slot in graph.slots_of(variable.name):
                if slot.role is Role.SLOT and slot.shape == variable.shape:
                    assert plan.variables[slot.name] == plan.variables[variable.name]


def test_convolutions_are_replicated_and_dense_layers_cut():
    """Krizhevsky's mixed scheme, found unaided."""
    graph = images()
    plan = plan_tiling(graph, mesh(4))
    assert plan.cut_dims()["sequential/d0/kernel"] in (0, 1)
    assert plan.variables["sequential/c0/kernel"].is_whole
    assert plan.moved_bytes < 2 * 3 * weights(graph) / 3


def test_exchanges_have_a_price():
    """A bias of few numbers is not worth an exchange, nor is anything if an exchange takes as long as all gradients."""
    graph = images()
    plans = [plan_tiling(graph, mesh(4), exchange_bytes=price) for price in (0.0, 3e5, 1e12)]
    free, priced, dear = (plan.cut_dims() for plan in plans)
    whole = {name for name in (f"sequential/c{n}" for n in range(8)) if f"{name}/kernel" not in priced}
    assert any(f"{name}/bias" in free for name in whole)
    assert not any(f"{name}/bias" in priced for name in whole)
    assert priced["sequential/d0/kernel"] in (0, 1)
    assert dear == {}
    assert plans[0].moved_bytes <= plans[1].moved_bytes < plans[2].moved_bytes
    assert plans[2].moved_bytes == pytest.approx(2 * 3 * weights(graph), rel=0.01), "an all-reduce"


def test_a_transformer_is_cut_by_heads_and_by_hidden_units():
    """As Megatron-LM cuts it, found unaided: what one product makes in parts, the next one sums."""
    graph = sentences()
    plan = plan_tiling(graph, mesh(2))
    cut = plan.cut_dims()
    heads = {f"a0/{name}/kernel": 1 for name in ("query", "key", "value")}
    assert {name: cut[name] for name in heads} == heads
    assert [cut[f"{name}/kernel"] for name in ("a0/attention_output", "f0", "g0", "logits")] == [0, 1, 0, 1]
    assert cut["words/embeddings"] == 1
    assert plan.moved_bytes < 2 * weights(graph)
    assert plan.whole == ()


def test_steps_of_recurrent_layers():
    """Of an unrolled layer every step is cut; a loop runs whole, and is named."""
    unrolled, loop = recurrent(8, unroll=True), recurrent(8, unroll=False)
    for lengths in ((4,), (2, 2)):
        plan = plan_tiling(unrolled, mesh(*lengths))
        assert plan.moved_bytes < 2 * 3 * weights(unrolled) * 2
        assert plan.whole == ()
    plan = plan_tiling(loop, mesh(4))
    assert {loop.analysis.nodes[name].op for name in plan.whole} == {"While", "StatelessWhile"}
    assert isfinite(plan.moved_bytes)
    assert "sequential/cells/lstm_cell/kernel" not in plan.cut_dims()


def test_heads_and_rows_are_found():
    step = coarsen(sentences(), 2)
    cut = {form.index for operator in step.graph.operators for form in operator.forms}
    assert len(cut) > 5
    assert step.variables.keys() >= {"words/embeddings", "a0/query/kernel", "n0/gamma"}


def test_a_limit_of_memory_is_kept():
    graph = dense(1024, 512, 512, 512, optimizer=keras.optimizers.Adam())
    free = plan_tiling(graph, mesh(4))
    stored = sum(v.size_bytes for v in graph.variables)
    limited = plan_tiling(graph, mesh(4), int(free.device_bytes * 0.75))
    assert limited.device_bytes <= free.device_bytes * 0.75
    assert limited.moved_bytes >= free.moved_bytes
    with pytest.raises(
        SpaceEmpty, match=r"keeps within 100\.0 kB per device, the least that was found needs"
    ) as caught:
        plan_tiling(graph, mesh(4), 100_000)
    assert "raise `memory_gb`" in (caught.value.hint or "")
    assert stored / 4 < limited.device_bytes < stored + 4 * 4 * 1024 * 512


def test_a_limit_is_of_what_explain_expects():
    graph, spec = dense(2048, 1024, 1024, 1024, optimizer=keras.optimizers.Adam()), ResourceSpec.local(4, 1)
    domain = Domain.of(graph, spec)
    limit_gb = 0.8e-9 * device_needs(Tiled().build(graph, spec), domain)
    small = replace(spec, hosts=tuple(replace(host, memory_gb=limit_gb) for host in spec.hosts))
    for builder, cluster in ((Tiled(memory_gb=limit_gb), spec), (Tiled(), small)):
        assert device_needs(builder.build(graph, cluster), domain) <= 1e9 * limit_gb
    with pytest.raises(SpaceEmpty, match="the least that was found needs"):
        Tiled(memory_gb=1e-4).build(graph, spec)
    with pytest.raises(StrategyError, match=r"`memory_gb` is 0.0001, allowed with these `dims`: at least 0\.0"):
        Tiled(dims=("*=whole",), memory_gb=1e-4).build(graph, spec)


def test_what_can_not_be_cut_is_whole():
    """Prime sizes, and fewer rows than devices."""
    graph = dense(3, 7, 13, 11)
    plan = plan_tiling(graph, mesh(4))
    assert all(layout.is_whole for layout in plan.variables.values())
    assert plan.moved_bytes == 0


def test_rows_that_only_a_loop_takes_are_not_cut():
    weight = tf.Variable(tf.ones([8, 8]), name="turn")

    def step(x):
        with tf.GradientTape() as tape:
            turned = tf.while_loop(lambda k, _: k < 3, lambda k, h: (k + 1, tf.tanh(h @ weight)), (0, x))[1]
            loss = tf.reduce_mean(turned)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    graph = capture(step, [tf.TensorSpec([8, 8])], VariableNames()).graph.with_batch_size(8)
    assert plan_tiling(graph, mesh(2)).cut_dims() == {}


def test_one_device_moves_nothing():
    plan = plan_tiling(dense(4, 8, 8), mesh(1))
    assert (plan.moved_bytes, set(map(str, plan.variables.values()))) == (0, {"*", "*,*", "()"})


def test_mistakes_are_named():
    graph = dense(8, 8, 8)
    with pytest.raises(StrategyError, match="only described"):
        plan_tiling(replace(graph, graph_def=None), mesh(2))
    five = Mesh(tuple((f"a{n}", 2) for n in range(5)), tuple(map(str, range(32))))
    with pytest.raises(StrategyError, match="5 axes, allowed: up to 4"):
        plan_tiling(graph, five)
    for text in (
        "",
        "{}",
        '{"mesh": 1, "variables": {}, "moved_bytes": 0, "device_bytes": 0, "gathered": [], "whole": []}',
    ):
        with pytest.raises((StrategyError, SpecError), match="damaged"):
            TilingPlan.from_json(text)
    assert str(TensorLayout.whole(1)) == "*"


def test_what_is_not_even_is_cut_into_nearly_equal_parts():
    plan = plan_tiling(dense(8, 509, 509, 509), mesh(4))
    assert set(plan.cut_dims().values()) == {0, 1}
    assert plan.moved_bytes < 1e6
    narrow = plan_tiling(dense(8, 5, 5), mesh(4))
    assert narrow.cut_dims() == {}, "one part would be twice as long as the others"
    assert not plan_tiling(dense(8, 509, 509, 509), mesh(2, 2)).cut_dims(), "on several axes, parts are equal"


def test_rules_that_fit_no_variable_are_said():
    graph, spec = dense(8, 64, 64), ResourceSpec.local(workers=2)
    told = Tiled(dims=("*/d0/kernal=1", "*=whole")).build(graph, spec).builder
    assert told.endswith(
        ": '*/d0/kernal=1' of `dims` fit none of the trained variables, such as "
        "`sequential/d0/kernel`, `sequential/d0/bias`"
    )
