"""Losses, metrics and outputs."""

import keras
import numpy as np
import tensorflow as tf

from ..data import WORDS, PlainModel, dense_batches, keras_model, sparse_batches
from ._case import case, sgd, supervised, with_optimizer


def sum_squared(y, predicted):
    return tf.reduce_sum(tf.square(y - predicted)) / 10.0


@case()
def sum_loss(ad):
    supervised(ad, PlainModel(), sgd, loss=sum_squared)


@case(gradient_reduction="sum")
def sum_loss_sparse(ad):
    optimizer = keras.optimizers.Adagrad(0.1)
    with_optimizer(ad, optimizer, "embedding", loss=sum_squared)


@case()
def sum_loss_regularized(ad):
    """The regularizer's gradient counts once, however many replicas add theirs."""
    model = PlainModel()

    def loss(y, predicted):
        return sum_squared(y, predicted) + 0.05 * tf.reduce_sum(tf.square(model.variables[0]))

    supervised(ad, model, sgd, loss=loss)


def linear_terms(x, y, kernel, scale):
    """Linear in what the model gives, so that what comes back to it is data: its sum is the same on all replicas."""
    shift = tf.tanh(scale)
    return (tf.tanh(x @ kernel) * shift + 2.0 * shift * scale + shift) * y


def train_linear(ad, differentiate):
    kernel, scale = tf.Variable(tf.ones([6, 4]), name="kernel"), tf.Variable(0.5 * tf.ones([4]), name="scale")

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            terms = linear_terms(x, y, kernel, scale)
            loss = 0.1 * tf.reduce_sum(terms)
            halves = [0.05 * tf.reduce_sum(terms), 0.05 * tf.reduce_sum(terms)]
        sgd(differentiate(tape, loss, halves, [kernel, scale]), [kernel, scale])
        return loss

    for x, y in dense_batches():
        step(x, y)


@case()
def sum_loss_linear(ad):
    train_linear(ad, lambda tape, loss, halves, sources: tape.gradient(loss, sources))


@case()
def sum_losses_linear(ad):
    """Several targets, and a gradient by them that is given."""
    ones = lambda halves: [tf.ones_like(half) for half in halves]  # noqa: E731
    train_linear(ad, lambda tape, loss, halves, sources: tape.gradient(halves, sources, output_gradients=ones(halves)))


@case()
def sum_loss_linear_in_a_session(ad):
    """The same by `tf.gradients`."""
    with tf.Graph().as_default():
        kernel = tf.compat.v1.get_variable("kernel", initializer=tf.ones([6, 4]))
        scale = tf.compat.v1.get_variable("scale", initializer=0.5 * tf.ones([4]))
        x, y = (tf.compat.v1.placeholder(tf.float32, [None, width]) for width in (6, 1))
        loss = 0.1 * tf.reduce_sum(linear_terms(x, y, kernel, scale))
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = ad.Session()
        session.run(tf.compat.v1.global_variables_initializer())
        for batch in dense_batches():
            session.run([loss, train], dict(zip((x, y), batch, strict=True)))


@case()
def loss_per_example(ad):
    """The gradient of a vector is that of its sum."""
    supervised(ad, PlainModel(), sgd, loss=lambda y, predicted: 0.1 * tf.square(y - predicted))


@case()
def regularizer(ad):
    model = keras.Sequential([keras.Input([6]), keras.layers.Dense(5, kernel_regularizer=keras.regularizers.L2(0.1))])
    model.add(keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L1(0.1)))
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    for x, y in dense_batches():
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)


@case()
def masked_loss(ad):
    """Words of number 0 are padding; the loss is the mean over all others in the batch, weighted by example."""
    model = keras.Sequential([keras.Input([3], dtype="int32"), keras.layers.Embedding(WORDS, 4, mask_zero=True)])
    model.add(keras.layers.Dense(2))
    model.compile(
        optimizer=keras.optimizers.SGD(0.1), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    for x, _ in sparse_batches():
        model.fit(x, x % 2, sample_weight=1.0 + x, batch_size=8, shuffle=False, verbose=0)


@case()
def masked_loss_by_hand(ad):
    """A ratio of two sums over the batch."""
    model = PlainModel()

    def loss(y, predicted):
        mask = tf.cast(y > 1, tf.float32)
        return tf.reduce_sum(mask * tf.square(y - predicted)) / tf.reduce_sum(mask)

    supervised(ad, model, sgd, loss=loss)


@case()
def sample_weights(ad):
    model = keras_model()
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", weighted_metrics=["mae"])
    for x, y in dense_batches():
        model.fit(x, y, sample_weight=np.abs(x[:, 0]), batch_size=8, shuffle=False, verbose=0)


@case()
def metrics(ad):
    model = keras.Sequential([keras.Input([6]), keras.layers.Dense(1, activation="sigmoid")])
    chosen = ["accuracy", keras.metrics.AUC(num_thresholds=20), keras.metrics.Precision()]
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="binary_crossentropy", metrics=chosen)
    for x, y in dense_batches():
        model.fit(x, (y > 1).astype(np.float32), batch_size=8, shuffle=False, verbose=0)


@case()
def dataset_fit(ad):
    """Batches of a dataset, of which each worker reads its part."""
    x, y = (np.concatenate(parts) for parts in zip(*dense_batches(), strict=True))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model = keras_model()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    model.fit(dataset, epochs=2, verbose=0)


@case()
def outputs_of_all_kinds(ad):
    """Means, sums, counts, what is computed from them, and rows."""

    def outputs(loss, gradients, y, predicted):
        error = y - predicted
        hits = tf.cast(tf.abs(error) < 0.5, tf.float32)
        mask = tf.cast(y > 1, tf.float32)
        return {
            "sum": tf.reduce_sum(error),
            "count": tf.shape(y)[0],
            "root": tf.sqrt(loss),
            "accuracy": tf.reduce_mean(hits),
            "hits": tf.reduce_sum(tf.cast(hits, tf.int32)),
            "masked": tf.reduce_sum(mask * error) / tf.reduce_sum(mask),
            "rows": predicted,
            "selected": tf.boolean_mask(predicted, y > 1),
            "shape": tf.shape(predicted),
            "gradient": gradients[0],
            "constant": tf.constant(3),
            "flag": loss > 0.0,
        }

    supervised(ad, PlainModel(), sgd, outputs=outputs)


@case()
def selected_rows(ad):
    """A loss over a selection of the examples, normalized by their number."""
    model = PlainModel()

    def loss(y, predicted):
        chosen = tf.boolean_mask(tf.square(y - predicted), y > 1)
        return tf.reduce_sum(chosen) / tf.cast(tf.size(chosen), tf.float32)

    supervised(ad, model, sgd, loss=loss)


@case()
def small_batches(ad):
    """Fewer examples than replicas."""
    supervised(ad, PlainModel(), sgd, dense_batches((4, 1, 2, 3)))


@case()
def small_batches_sparse(ad):
    model = keras_model("embedding")
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    supervised(ad, model, optimizer.apply, sparse_batches((4, 1, 2, 3)))
