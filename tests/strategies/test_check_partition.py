"""Partitions that don't fit are refused, each with what would be allowed."""

from dataclasses import replace

import keras
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    compose,
    num_shards,
    verify,
)

from .examples import graph, variable

SPEC = ResourceSpec.local(workers=2)
SERVERS = tuple(host.cpu_devices[0].name for host in SPEC.hosts)


def problems(g, partition, *shards, name="w"):
    """What is wrong with one variable's config; `shards` are the indices of servers, None for an all-reduce."""
    synchronizers = [
        AllReduceSynchronizer(k, communicator="horovod") if s is None else PSSynchronizer(SERVERS[s])
        for k, s in enumerate(shards)
    ]
    configs = [
        VariableConfig(v.name, tuple(map(ShardConfig, synchronizers)), partition)
        if v.name == name
        else VariableConfig.whole(v.name, PSSynchronizer(SERVERS[0]))
        for v in g.trainable
    ]
    strategy = Strategy(GraphConfig(tuple(d.name for d in SPEC.replicas), "tcp"), tuple(configs))
    return [str(p) for p in verify(strategy, g, SPEC, available_communicators=["tcp", "horovod", "collective"])]


@pytest.mark.parametrize(
    ("partition", "count", "text"),
    [
        ((2,), 2, "partition is (2,), allowed: one entry for each of its 2 dims (its shape is (4, 3))"),
        ((2, 4), 8, "partition is (2, 4), allowed: 1 to 3 parts of dim 1 (the dim has 3 elements)"),
        ((0, 1), 1, "partition is (0, 1), allowed: 1 to 4 parts of dim 0"),
        (((3, 2), 1), 2, "allowed: sizes of at least 1 that add up to 4 in dim 0"),
        (((4, 0), 1), 2, "allowed: sizes of at least 1 that add up to 4 in dim 0"),
        (((), 1), 1, "allowed: sizes of at least 1 that add up to 4 in dim 0"),
        ((2, 2), 3, "number of shards is 3, allowed: 4 (the partition (2, 2) makes so many)"),
    ],
)
def test_what_does_not_fit_the_shape(partition, count, text):
    found = problems(graph(variable("w", (4, 3))), partition, *[0] * count)
    assert len(found) == 1
    assert text in found[0]


def test_all_dims_are_told_at_once():
    assert len(problems(graph(variable("w", (4, 3))), (9, (3, 3)), 0)) == 2


def test_what_has_no_dims_or_elements_stays_whole():
    assert "allowed: no partition (its shape is ())" in problems(graph(variable("w", ())), (2,), 0, 0)[0]
    assert "allowed: no partition (it has no elements)" in problems(graph(variable("w", (4, 0))), (2, 1), 0, 0)[0]


def test_names_of_shards_are_free():
    g = graph(variable("w", (4, 3)), variable("w/shard_0", (2,)))
    assert "its shards' names are taken by `w/shard_0`" in problems(g, (2, 1), 0, 0)[0]


def step_graph(apply, *, prepare=lambda variables: None, output=lambda loss, gradients: loss):
    kept = [keras.Variable(tf.ones([4, 3]), name="w"), keras.Variable(tf.ones([3]), name="b")]
    prepare(kept)

    def step(x):
        w, b = (v.value for v in kept)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b) ** 2)
        gradients = tape.gradient(loss, [w, b])
        apply(gradients, [w, b])
        return output(loss, gradients)

    return capture(step, [tf.TensorSpec([8, 4])], VariableNames()).graph


def raw(gradients, variables):
    for gradient, v in zip(gradients, variables, strict=True):
        v.assign_sub(0.1 * gradient)


def test_a_separable_update_passes():
    assert problems(step_graph(raw), (2, (1, 2)), 0, 1, 0, 1) == []


OPTIMIZERS = {
    "clipnorm": (lambda: keras.optimizers.SGD(clipnorm=1.0), "(Sum) looks at more than one part of the update"),
    "global_clipnorm": (lambda: keras.optimizers.SGD(global_clipnorm=1.0), "can't be separated from that of `b`"),
    "loss scale": (
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
        "(`mixed_bfloat16` needs none)",
    ),
    "accumulation": (lambda: keras.optimizers.SGD(gradient_accumulation_steps=2), "(If) changes all, like gradient a"),
    "Lamb": (keras.optimizers.Lamb, "(Sum) looks at more than one part of the update"),
    "Adafactor": (keras.optimizers.Adafactor, "has the shape (4,)"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_that_looks_at_the_whole_is_refused_with_its_op(name):
    optimizer, text = OPTIMIZERS[name]
    made = optimizer()
    g = step_graph(lambda gradients, variables: made.apply(gradients), prepare=made.build)
    found = problems(g, (2, 1), 0, 0)
    assert any("`w`: partition is (2, 1), allowed: no partition" in f and text in f for f in found)


def test_control_flow_that_takes_the_variable_is_refused():
    def apply(gradients, variables):
        raw(gradients, variables)
        w = variables[0]
        tf.cond(tf.reduce_sum(w) > 100.0, lambda: w.assign(tf.zeros_like(w)), lambda: w.read_value())

    (found,) = problems(step_graph(apply), (2, 1), 0, 0)
    assert "(If) takes the variable itself" in found or "(If) looks at the whole of the variable" in found


def test_a_choice_by_the_whole_gradient_is_refused():
    """Only Keras' own division of slices may look at all rows: each part divides by itself."""

    def apply(gradients, variables):
        values = gradients[0]
        chosen = tf.cond(tf.reduce_any(tf.math.is_nan(values)), lambda: tf.zeros_like(values), lambda: 2.0 * values)
        raw([chosen, gradients[1]], variables)

    found = problems(step_graph(apply), (2, 1), 0, 0)
    assert any("(StatelessIf) looks at more than one part of the update" in f for f in found)


def test_a_gradient_that_the_step_returns_needs_one_home():
    g = step_graph(raw, output=lambda loss, gradients: (loss, tf.norm(gradients[0])))
    assert problems(g, (2, 1), 1, 1) == []
    for shards in ((0, 1), (0, None)):
        (found,) = problems(g, (2, 1), *shards)
        assert "home of its shards is several, allowed: one for all of them" in found
    assert num_shards((2, 1)) == 2


def test_rows_of_a_sparse_gradient_are_not_for_others():
    table = tf.Variable(tf.ones([5, 2]), name="w")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids))
        gradient = tape.gradient(loss, table)
        table.scatter_sub(gradient)
        return loss, gradient.values

    g = capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames()).graph
    (found,) = problems(g, (2, 1), 0, 0)
    assert "takes the rows of the sparse gradient outside of the update" in found


def test_rows_of_a_sparse_gradient_that_became_dense_are_not_for_others_either():
    """What is made of rows is made of a shard's rows in each shard, and of this worker's rows for the whole."""
    table = tf.Variable(tf.ones([5, 2]), name="w")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids))
        gradient = tf.convert_to_tensor(tape.gradient(loss, table))
        table.assign_sub(0.1 * gradient)
        return loss, tf.norm(gradient)

    g = capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames()).graph
    (found,) = problems(g, (2, 1), 0, 0)
    assert "takes the rows of the sparse gradient outside of the update" in found


def watched(*, output=lambda loss, gradients: (loss, tf.norm(gradients[0]))):
    """A step over large variables that returns the norm of a gradient."""
    kept = [tf.Variable(tf.ones([512, 512]), name=name) for name in ("w", "b")]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ kept[0]) @ kept[1]) ** 2)
        gradients = tape.gradient(loss, kept)
        raw(gradients, kept)
        return output(loss, gradients)

    return capture(step, [tf.TensorSpec([None, 512])], VariableNames()).graph.with_batch_size(8)


BUILDERS = ("PartitionedPS", "UnevenPartitionedPS", "BytePS(part_bytes=262144)", "Tiled")


@pytest.mark.parametrize("builder", BUILDERS)
def test_builders_leave_variables_whole_whose_gradient_the_step_returns(builder):
    g = watched(output=lambda loss, gradients: (loss, tf.reduce_max(gradients[0], axis=0)))
    found = {config.variable: config.partition for config in compose(builder, g, SPEC).variables}
    assert found["w"] is None
    assert found["b"] is not None


@pytest.mark.parametrize("axis", [None, 0])
def test_tiles_are_no_obstacle_to_norms_of_a_gradient(axis):
    g = watched(output=lambda loss, gradients: (loss, tf.norm(gradients[0], axis=axis)))
    assert compose("Tiled", g, SPEC).config("w").partition is not None


@pytest.mark.parametrize("made", [lambda gradient: gradient, lambda gradient: 2 * gradient])
def test_what_is_returned_as_it_is_is_said_too(made):
    g = watched(output=lambda loss, gradients: (loss, made(gradients[0])))
    (found,) = problems(g, (2, 1), 0, 1)
    assert "takes the gradient of the whole variable" in found
    assert compose("Tiled", g, SPEC).config("w").partition is None


def test_a_gradient_of_a_gradient_is_no_riddle():
    """As in GradNorm, where norms of gradients train the weights of tasks."""
    shared, tasks = tf.Variable(tf.ones([4, 6]), name="shared"), tf.Variable([1.0, 2.0], name="tasks")

    def step(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape(persistent=True) as tape:
                z = tf.tanh(x @ shared)
                losses = [tasks[0] * tf.reduce_mean(z**2), tasks[1] * tf.reduce_mean(tf.abs(z))]
                total = tf.add_n(losses)
            norms = [tf.norm(tape.gradient(loss, shared)) for loss in losses]
            gradient = tape.gradient(total, shared)
            balance = tf.abs(norms[0] - norms[1])
        tasks.assign_sub(0.1 * outer.gradient(balance, tasks))
        shared.assign_sub(0.1 * gradient)
        return total

    g = capture(step, [tf.TensorSpec([8, 4])], VariableNames()).graph
    with pytest.raises(StrategyError) as caught:
        compose("Tiled(dims=('shared=1',))", g, SPEC)
    assert "`shared`: partition is (1, 2), allowed: no partition" in caught.value.message
    assert "autodist_" not in caught.value.message
    assert "leave `shared` whole: by a rule `NAME=whole`" in caught.value.hint
    assert compose("Tiled", g, SPEC).config("shared").partition is None


def test_a_plan_says_why_no_dim_can_be_cut(tmp_path):
    plan = tmp_path / "plan.yml"
    plan.write_text('layouts: {w: 1}\n"*": {all_reduce: {}}\n')
    g = watched(output=lambda _, found: tf.reduce_max(found[0], axis=0))
    with pytest.raises(StrategyError, match=r"allowed for 2 replicas: whole \(op `Max` takes the gradient of the w"):
        compose(f"Manual(plan={str(plan)!r})", g, SPEC)


def test_tiles_of_coupled_variables_are_refused_once_each():
    def update(gradients, variables):
        for v in variables:
            v.assign_sub(tf.ones_like(v) * tf.reduce_sum(gradients[0], axis=0) * gradients[1][0])

    with pytest.raises(StrategyError, match="its update can't be separated from that of `b`") as caught:
        compose("Tiled(dims=('w=0', '*=whole'))", step_graph(update), SPEC)
    assert "mistakes" not in caught.value.message


def test_what_shares_a_norm_with_tiles_has_no_server():
    """A server would need the norm, in which all workers have a part."""
    made = keras.optimizers.SGD(global_clipnorm=1.0)
    g = step_graph(lambda gradients, variables: made.apply(gradients), prepare=made.build)
    tiled = compose("Tiled(dims=('w=0', '*=whole'))", g, SPEC)
    server = VariableConfig.whole("b", PSSynchronizer(SERVERS[0]))
    mixed = replace(tiled, variables=tuple(server if c.variable == "b" else c for c in tiled.variables))
    (found,) = map(str, verify(mixed, g, SPEC))
    assert "`b`: destination is" in found
    assert "shares a norm, a branch or a slot with that of `w`, of which replicas have parts" in found


def test_it_is_said_that_tiles_cut_nothing_in_a_branch_that_prints():
    def update(gradients, variables):
        def leave_out():
            tf.print("left out")

        tf.cond(tf.norm(gradients[0]) < 1.0, lambda: raw(gradients, variables), leave_out)

    g = step_graph(update)
    assert "no variable can be cut: its update can't be separated from" in compose("Tiled()", g, SPEC).builder
    assert "can be cut" not in compose("Tiled()", step_graph(raw), SPEC).builder
