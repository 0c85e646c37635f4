"""Weights bounded after each update, by norms of their columns or rows, while each worker has parts of them."""

import keras
import pytest
import tensorflow as tf

from .test_tiled_updates import TWO, by_optimizer, data_of, perceptron, trains_as_one_device

BOUNDED = {
    "max_norm": lambda w, axis: w * tf.minimum(1.0, 0.5 / tf.sqrt(tf.reduce_sum(w * w, axis=axis, keepdims=True))),
    "unit_norm": tf.math.l2_normalize,
    "clipped": lambda w, axis: tf.clip_by_norm(w, 0.4, axes=[axis]),
    "largest": lambda w, axis: w / tf.reduce_max(tf.abs(w), axis=axis, keepdims=True),
}


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", BOUNDED)
def test_norms_along_either_dim_bound_what_is_cut_along_either(name, axis, cut):
    model, optimizer = perceptron(), keras.optimizers.SGD(0.1)
    train = by_optimizer(model, optimizer)

    def step(x, y):
        loss = train(x, y)
        for kernel in model.trainable_variables[::2]:
            kernel.assign(BOUNDED[name](kernel.value, axis))
        return loss

    variables = [*model.variables, *optimizer.variables]
    strategy = f"Tiled(dims=['*/kernel={cut}', '*/bias=whole'])"
    graphs, _ = trains_as_one_device(step, variables, data_of(model, 2), strategy, TWO)
    assert graphs
