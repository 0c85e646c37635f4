"""Gradients that are exchanged and applied some steps later: what comes out, and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster

from .test_groups import FOUR, assert_same, dense

ROWS = (8, 7, 1, 8, 5)


def built(make_optimizer):
    keras.backend.clear_session()  # names begin again
    keras.utils.set_random_seed(0)
    optimizer = make_optimizer()
    model = dense()
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(0)
    data = [[numbers.normal(size=(n, 12)).astype(np.float32) for _ in range(2)] for n in ROWS]

    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) + sum(model.losses)
        return loss, tape.gradient(loss, model.trainable_variables)

    def step(x, y):
        loss, found = gradients(x, y)
        optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))
        return loss

    return model, optimizer, data, step, gradients


def rates():
    return keras.optimizers.schedules.PiecewiseConstantDecay([1, 3], [0.05, 0.1, 0.02])


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(rates(), momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(rates(), weight_decay=0.1),
    "clipped": lambda: keras.optimizers.SGD(0.5, clipnorm=0.1),
    "accumulated": lambda: keras.optimizers.Adam(rates(), gradient_accumulation_steps=2),
}


def on_one_device(kind, staleness):
    """The losses, and the variables in the end, if each step applies the gradients of an earlier one."""
    model, optimizer, data, _, gradients = built(OPTIMIZERS[kind])
    traced = tf.function(gradients, reduce_retracing=True)
    kept, losses = [], []
    for x, y in data:
        loss, found = traced(x, y)
        kept.append(found)
        losses.append(loss.numpy())
        if len(kept) > staleness:
            optimizer.apply_gradients(zip(kept.pop(0), model.trainable_variables, strict=True))
    for found in kept:
        optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))
    return losses, {v.path: v.numpy() for v in (*model.variables, *optimizer.variables)}


TILED = "Tiled(dims=('*dense*/kernel=1',), groups=2, staleness={}{})"
WHOLE = "AllReduce(communicator='tcp', staleness={}{})"
TWO_OF_TWO = ResourceSpec(tuple(Host(name, name, cpus=2) for name in "ab"))


@pytest.mark.parametrize(
    ("kind", "text", "staleness", "spec"),
    [
        ("SGD", TILED.format(2, ""), 2, FOUR),
        ("accumulated", TILED.format(1, ""), 1, FOUR),
        ("Adam", WHOLE.format(1, ""), 1, TWO_OF_TWO),
        *(
            pytest.param(kind, text.format(staleness, option), staleness, spec, marks=pytest.mark.slow)
            for kind in OPTIMIZERS
            for text, option in ((TILED, ""), (TILED, ", served=True"), (WHOLE, ""))
            for staleness in (1, 3)
            for spec in (FOUR, TWO_OF_TWO)
            if not (kind == "accumulated" and text is WHOLE) and not (kind == "clipped" and option)
        ),
    ],
)
def test_each_step_applies_the_gradients_of_an_earlier_one(kind, text, staleness, spec):
    losses, after = on_one_device(kind, staleness)
    _, _, data, step, _ = built(OPTIMIZERS[kind])
    with InProcessCluster(step, data[0], text, spec) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        cluster.settle(len(data))
        assert_same(cluster.values(), after)


def test_what_is_kept_is_applied_in_between_and_steps_go_on():
    """After that, the first steps find nothing to apply again."""
    model, optimizer, data, _, gradients = built(OPTIMIZERS["SGD"])
    for first in (0, 2):
        kept = [gradients(*data[k])[1] for k in (first, first + 1)]
        for found in kept:
            optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))
    after = {v.path: v.numpy() for v in (*model.variables, *optimizer.variables)}
    _, _, data, step, _ = built(OPTIMIZERS["SGD"])
    with InProcessCluster(step, data[0], WHOLE.format(2, ""), TWO_OF_TWO) as cluster:
        for k in range(4):
            cluster.step(*data[k])
            if k % 2:
                cluster.settle(k)
        assert_same(cluster.values(), after)


def test_an_update_in_a_branch_that_reads_the_number_of_the_step_is_refused():
    _, _, data, step, _ = built(OPTIMIZERS["accumulated"])
    with pytest.raises(StrategyError, match="updates in a branch that reads `adam/iteration`"):
        InProcessCluster(step, data[0], WHOLE.format(1, ""), FOUR)


def reading_after_its_update(weight, gradient):
    weight.assign_sub(gradient)
    return tf.reduce_sum(weight)


def returning_a_norm(weight, gradient):
    weight.assign_sub(gradient)
    return tf.norm(gradient)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (reading_after_its_update, "the step returns what comes of a gradient or an update"),
        (returning_a_norm, "the step returns a value that depends on its gradient"),
    ],
)
def test_uses_of_what_comes_later_are_refused(end, told):
    weight = tf.Variable(tf.ones([3, 2]), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weight))
        return end(weight, tape.gradient(loss, weight))

    with pytest.raises(StrategyError, match=told):
        InProcessCluster(step, [np.ones([4, 3], np.float32)], WHOLE.format(1, ""), TWO_OF_TWO)


def weights():
    return tf.Variable(np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(3, 2), name="weight")


def decaying_first(weight, gradient, count):
    """The decay needs no gradient, but belongs to the update."""
    weight.assign(0.9 * weight)
    weight.assign_sub(0.5 * gradient)
    count.assign_add(1.0)


def waiting_for_a_count(weight, gradient, count):
    with tf.control_dependencies([count.assign_add(1.0)]):
        weight.assign_sub(0.5 * gradient)


def bounded_after(weight, gradient, count):
    weight.assign_sub(0.5 * gradient)
    weight.assign(tf.clip_by_value(weight, -0.9, 0.9))
    count.assign_add(1.0)


@pytest.mark.parametrize("update", [decaying_first, waiting_for_a_count, bounded_after])
def test_all_of_an_update_comes_later_and_nothing_else(update):
    numbers = np.random.default_rng(0)
    data = [[numbers.normal(size=(4, 3)).astype(np.float32)] for _ in range(5)]
    settled = (1, 2, 4)

    def gradient(weight, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weight - 1.0))
        return loss, tape.gradient(loss, weight)

    alone, counted, kept, losses = weights(), tf.Variable(0.0), [], []
    for k, [x] in enumerate(data):
        loss, found = gradient(alone, x)
        losses.append(loss)
        kept.append(found)
        while len(kept) > 2 or (kept and k in settled):
            update(alone, kept.pop(0), counted)
    weight, count = weights(), tf.Variable(0.0, name="count")

    def step(x):
        loss, found = gradient(weight, x)
        update(weight, found, count)
        return loss

    with InProcessCluster(step, data[0], WHOLE.format(2, ""), TWO_OF_TWO) as cluster:
        for k, (batch, loss) in enumerate(zip(data, losses, strict=True)):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
            if k in settled:
                cluster.settle(k + 1)
        values = cluster.values()
        [note] = cluster.workers[0].graph.notes
    assert note.startswith("gradients are applied 2 steps later than on one device")
    for value in values["weight"]:
        np.testing.assert_allclose(value, alone.numpy(), rtol=1e-5)
    assert set(map(float, values["count"])) == {5.0}


def test_one_part_may_have_a_server():
    """Workers that serve nothing, and those that do, count the messages on their way alike."""
    weight = tf.Variable(np.ones([12, 8], np.float32), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weight))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    x = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32)
    text = "Tiled(dims=('weight=1',), groups=2, staleness=1, served=True)"
    with InProcessCluster(step, [x], text, FOUR) as cluster:
        losses = [cluster.step(x)[0][0] for _ in range(4)]
    assert losses[0] == pytest.approx(losses[1])
    assert losses[1] > losses[2] > losses[3]


def scaled_by_the_loss(weight, gradient, loss):
    weight.assign_sub(0.1 * loss * gradient)


def averaged(weight, gradient, loss):
    weight.assign_sub(0.1 * gradient)
    weight.mean.assign(0.9 * weight.mean + 0.1 * weight)


@pytest.mark.parametrize(
    ("update", "told"),
    [
        (scaled_by_the_loss, "the step goes on with a gradient before it applies it"),
        (averaged, "the step changes `mean` by what an update reads or makes together with other values"),
    ],
)
def test_updates_that_need_more_of_their_step_are_refused(update, told):
    weight = weights()
    weight.mean = tf.Variable(tf.zeros([3, 2]), name="mean")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weight))
        update(weight, tape.gradient(loss, weight), loss)
        return loss

    with pytest.raises(StrategyError, match=told):
        InProcessCluster(step, [np.ones([4, 3], np.float32)], WHOLE.format(1, ""), TWO_OF_TWO)


def test_a_scale_of_the_loss_that_updates_change_is_refused():
    model, optimizer, data, _, _ = built(lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))

    def scaled(x, y):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_mean(tf.square(model(x, training=True) - y)))
        found = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))
        return loss

    with pytest.raises(StrategyError, match="computes gradients with `loss_scale_optimizer/dynamic_scale`"):
        InProcessCluster(scaled, data[0], WHOLE.format(1, ""), TWO_OF_TWO)
