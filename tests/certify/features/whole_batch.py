"""Losses of the whole batch: each example's part depends on the others."""

import keras
import tensorflow as tf

from ..data import dense_batches, sparse_batches
from ._case import case, supervised


def in_batch_negatives(y, predicted):
    """Each row's own score beside its scores with all other rows."""
    scores = tf.matmul(predicted, tf.tanh(predicted), transpose_b=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(scores)[0]), scores))


@case()
def negatives_of_the_batch(ad):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Embedding(50, 4), keras.layers.GlobalAveragePooling1D()])
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)
    supervised(ad, model, optimizer.apply, sparse_batches(), in_batch_negatives, variables=model.trainable_variables)


@case()
def two_views(ad):
    """Of what is drawn anew for each example, through a batch normalization, as in contrastive learning of images."""
    layers = keras.layers
    draw = layers.Dropout(0.3, seed=4)
    body = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.BatchNormalization(), layers.Dense(4)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(body.trainable_variables)

    @ad.function
    def step(x, y):
        count = tf.shape(x)[0]
        with tf.GradientTape() as tape:
            views = tf.concat([body(draw(x, training=True), training=True) for _ in range(2)], 0)
            z = tf.math.l2_normalize(views, axis=1)
            scores = tf.matmul(z, z, transpose_b=True) - 1e9 * tf.eye(2 * count)
            partners = tf.concat([tf.range(count, 2 * count), tf.range(count)], 0)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(partners, scores))
        optimizer.apply(tape.gradient(loss, body.trainable_variables), body.trainable_variables)
        return loss, scores

    for x, y in dense_batches():
        step(x, y)


@case()
def ranks_and_ratios(ad):
    """The root of a mean, a ratio of sums, the hardest half, and the differences of sorted rows."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])

    def loss(y, predicted):
        error = tf.square(y - predicted)[:, 0]
        ratio = 2.0 * tf.reduce_sum(tf.sigmoid(predicted)) / (1.0 + tf.reduce_sum(tf.square(predicted)))
        hard = tf.reduce_mean(tf.math.top_k(error, tf.shape(error)[0] // 2).values)
        ranks = tf.reduce_mean(tf.square(tf.sort(y[:, 0]) - tf.sort(predicted[:, 0])))
        return tf.sqrt(tf.reduce_mean(error)) + ratio + hard + ranks

    def apply(gradients, variables):
        for gradient, variable in zip(gradients, variables, strict=True):
            variable.assign_sub(0.1 * tf.clip_by_norm(gradient, 0.5))

    supervised(ad, model, apply, loss=loss, variables=model.trainable_variables)


@case()
def rows_known_to_python(ad):
    """Numbers of rows in Python, in constants and in a state: each size of batch is a step of its own."""
    w, memory = tf.Variable(tf.fill([6, 1], 0.1), name="w"), tf.Variable(tf.zeros([6, 1]), name="memory")
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build([w, memory])

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            near = tf.eye(x.shape[0]) + tf.nn.softmax(x @ tf.transpose(x))
            error = near @ (tf.tanh(x @ w) + x @ memory) - y
            loss = tf.reduce_sum(tf.square(error)) / x.shape[0] + tf.square(error[3, 0])
        optimizer.apply(tape.gradient(loss, [w, memory]), [w, memory])
        return loss, error

    for x, y in dense_batches():
        step(x, y)
