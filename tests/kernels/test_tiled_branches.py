"""Branches that take variables of which each replica has a part, and change others."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError

from .test_refused_tiled_updates import refused
from .test_tiled_updates import BY_BOTH, TWO, WIDE, assigned, loss_of, plain, trains_as_one_device


def data_of(*rows):
    numbers = np.random.default_rng(1)
    return [[numbers.normal(size=(count, width)) for width in (12, 6)] for count in rows]


def counted_parts(graph):
    return len({v.piece.whole for v in graph.variables if v.piece is not None})


@pytest.mark.parametrize("strategy", BY_BOTH, ids=["columns", "rows"])
def test_values_that_overwrite_those_of_a_target_network_at_times(strategy):
    variables, counter = plain(), tf.Variable(0, name="counter")
    target = [tf.Variable(v, name=f"target/{v.name[:-2]}", trainable=False) for v in variables]

    def overwrite():
        for old, new in zip(target, variables, strict=True):
            old.assign(new)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y + 0.5 * tf.tanh(x @ target[0] + target[1]) @ target[2])
        assigned(variables, tape.gradient(loss, variables))
        counter.assign_add(1)
        tf.cond(counter % 2 == 0, overwrite, lambda: None)
        return [loss]

    watched = [*variables, *target, counter]
    graphs, ends = trains_as_one_device(step, watched, data_of(8, 7, 8, 1, 8), strategy, TWO, 1e-10)
    assert np.ptp(ends["target/one/kernel"] - ends["one/kernel"]) > 1e-3
    assert counted_parts(graphs[0]) >= 2


@pytest.mark.parametrize("strategy", BY_BOTH, ids=["columns", "rows"])
def test_values_that_are_kept_while_the_loss_falls(strategy):
    variables, least = plain(), tf.Variable(1e9, dtype="float64", name="least", trainable=False)
    kept = [tf.Variable(v, name=f"kept/{v.name[:-2]}", trainable=False) for v in variables]

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)

        def keep():
            least.assign(loss)
            for old, new in zip(kept, variables, strict=True):
                old.assign(new)

        def fall_back():
            for old, new in zip(kept, variables, strict=True):
                new.assign(0.5 * (old + new) + 1e-3 * tf.exp(-loss) * new)

        gradients = tape.gradient(loss, variables)
        tf.cond(loss < least, keep, fall_back)
        assigned(variables, gradients)
        return [loss]

    data = data_of(8, 4, 8, 12, 8)
    graphs, ends = trains_as_one_device(step, [*variables, *kept, least], data, strategy, TWO, 1e-10)
    assert ends["least"] < 1e9
    assert counted_parts(graphs[0]) >= 2


def test_what_is_not_a_plain_choice_is_said_of_what_it_only_reads():
    sums = tf.Variable(np.zeros(WIDE), name="sums", trainable=False)

    def update(variables, gradients):
        assigned(variables, gradients)
        drawn = tf.random.normal([WIDE], dtype="float64")
        tf.cond(
            tf.norm(gradients[0]) < 10.0, lambda: sums.assign(variables[0][0] + tf.random.shuffle(drawn)), lambda: sums
        )

    with pytest.raises(
        StrategyError, match=r"`cond` \(If\) takes it and changes others, and is not a plain choice: it"
    ):
        refused(update)
