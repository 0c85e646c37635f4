"""Functions in functions, and control flow."""

import keras
import numpy as np
import tensorflow as tf

from ..data import WORDS, PlainModel, dense_batches, mean_squared, sparse_batches
from ._case import case, sgd, supervised


@case()
def nested_model_call(ad):
    model = PlainModel()
    call = tf.function(model.__call__)
    supervised(ad, _with_variables(call, model), sgd, variables=model.variables)


@case()
def nested_jit_compiled(ad):
    model = PlainModel()
    call = tf.function(model.__call__, jit_compile=True)
    supervised(ad, _with_variables(call, model), sgd, variables=model.variables)


@case()
def nested_gradient_and_update(ad):
    """Tape and optimizer in nested functions, one of them called for two models."""
    models = [PlainModel(), PlainModel()]
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build([v for model in models for v in model.variables])

    @tf.function
    def gradients_of(x, y, index):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, models[index](x))
        return loss, tape.gradient(loss, models[index].variables)

    @tf.function
    def update(*gradients):
        optimizer.apply(list(gradients), [v for model in models for v in model.variables])

    @ad.function
    def step(x, y):
        (first, one), (second, two) = gradients_of(x, y, 0), gradients_of(x, y + first_offset, 1)
        update(*one, *two)
        return first, second

    first_offset = tf.constant(0.5)
    for x, y in dense_batches():
        step(x, y)


def _with_variables(call, model):
    return lambda x: call(x) if model.variables else None


@case()
def cond_on_data(ad):
    """The condition is a function of the whole batch's shape-free statistics: the same on every replica here."""
    model = PlainModel()
    switch = tf.Variable(1.0, name="switch")

    def forward(x):
        return tf.cond(switch > 0.5, lambda: model(x), lambda: 2.0 * model(x))

    def apply(gradients, variables):
        sgd(gradients, variables)
        switch.assign(1.0 - switch)

    supervised(ad, forward, apply, variables=model.variables)


@case()
def case_per_example(ad):
    model = PlainModel()

    def forward(x):
        return tf.map_fn(lambda row: tf.cond(row[0] > 0, lambda: model(row[None])[0], lambda: model(-row[None])[0]), x)

    supervised(ad, forward, sgd, variables=model.variables)


@case()
def while_loop(ad):
    model = PlainModel()
    recurrent = tf.Variable(0.2 * np.eye(6, dtype=np.float32), name="recurrent")

    def forward(x):
        state = tf.while_loop(
            lambda k, state: k < 3, lambda k, state: (k + 1, tf.tanh(x + state @ recurrent)), (0, tf.zeros_like(x))
        )[1]
        return model(state)

    supervised(ad, forward, sgd, variables=[*model.variables, recurrent])


@case()
def lstm(ad):
    model = keras.Sequential([keras.Input([3], dtype="int32"), keras.layers.Embedding(WORDS, 4)])
    model.add(keras.layers.LSTM(4))
    model.add(keras.layers.Dense(1))
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    supervised(ad, model, optimizer.apply, sparse_batches())
