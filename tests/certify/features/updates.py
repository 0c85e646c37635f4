"""Gradients on their way to the update."""

import keras
import tensorflow as tf

from ..data import PlainModel, dense_batches, keras_model, mean_squared, sparse_batches
from ._case import case, sgd, supervised, with_optimizer


@case()
def clipnorm(ad):
    with_optimizer(ad, keras.optimizers.Adam(0.01, clipnorm=0.05))


@case()
def global_clipnorm(ad):
    with_optimizer(ad, keras.optimizers.SGD(0.1, global_clipnorm=0.05), "embedding")


@case()
def clipvalue(ad):
    with_optimizer(ad, keras.optimizers.SGD(0.1, momentum=0.9, clipvalue=0.02))


@case()
def clip_by_hand(ad):
    def apply(gradients, variables):
        sgd(tf.clip_by_global_norm(gradients, 0.05)[0], variables)

    supervised(ad, PlainModel(), apply, outputs=lambda loss, gradients, y, p: tf.linalg.global_norm(gradients))


@case()
def clip_sparse_by_hand(ad):
    model = keras_model("lookup")
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    def apply(gradients, variables):
        optimizer.apply(tf.clip_by_global_norm(gradients, 0.05)[0], variables)

    supervised(ad, model, apply, sparse_batches())


@case()
def loss_scale(ad):
    inner = keras.optimizers.Adam(0.01)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0, dynamic_growth_steps=2)
    model = keras_model()
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
            scaled = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return loss

    for x, y in dense_batches():
        step(x, y)


@case()
def gradient_accumulation(ad):
    with_optimizer(ad, keras.optimizers.Adam(0.01, gradient_accumulation_steps=2))


@case()
def gradient_accumulation_by_hand(ad):
    model = PlainModel()
    sums = [tf.Variable(tf.zeros_like(v), name=f"sum_{k}") for k, v in enumerate(model.variables)]
    count = tf.Variable(0, name="count", dtype=tf.int64)

    def update():
        for total, variable in zip(sums, model.variables, strict=True):
            variable.assign_sub(0.05 * total)
            total.assign(tf.zeros_like(total))

    def apply(gradients, variables):
        for total, gradient in zip(sums, gradients, strict=True):
            total.assign_add(gradient)
        tf.cond(tf.equal(count.assign_add(1) % 2, 0), update, lambda: None)

    supervised(ad, model, apply)


@case()
def adamw(ad):
    with_optimizer(ad, keras.optimizers.AdamW(0.01, weight_decay=0.1), "embedding")


@case()
def moving_average(ad):
    with_optimizer(ad, keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3))


@case()
def schedule(ad):
    with_optimizer(ad, keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)))


@case()
def rmsprop_ftrl(ad):
    """Two further optimizers with several slots each, on two parts of a model."""
    model = keras_model()
    one, two = keras.optimizers.RMSprop(0.01, centered=True, momentum=0.5), keras.optimizers.Ftrl(0.05)
    one.build(model.trainable_variables[:2])
    two.build(model.trainable_variables[2:])

    def apply(gradients, variables):
        one.apply(gradients[:2], variables[:2])
        two.apply(gradients[2:], variables[2:])

    supervised(ad, model, apply)
