"""Small models, optimizers and ways to train, drawn from a seed."""

import random

import keras
import tensorflow as tf

from ..data import BATCH_SIZES, WORDS, Lookup, dense_batches, mean_squared, sparse_batches
from .loss import drawn_loss
from .middle import middle_kinds

KINDS = ("dense", "sequence", "recurrent", "embedding", "lookup")


def train(ad, seed):
    """Train a drawn model in a drawn way; in float64 where the weights may not matter, so that they are round-off."""
    is_plain = drawn_loss(seed) is mean_squared and not middle_kinds(seed)
    floatx = keras.config.floatx()
    keras.config.set_floatx(floatx if is_plain else "float64")
    try:
        _train(ad, seed)
    finally:
        keras.config.set_floatx(floatx)


def _train(ad, seed):
    chance = random.Random(f"model {seed}")
    kind = chance.choice(KINDS)
    first, middle = first_layers(chance, kind), [layer() for layer in middle_kinds(seed)]
    model = keras.Sequential([*first, *middle, *random_layers(seed), *last_layers(chance)])
    optimizer, loss = chance.choice(OPTIMIZERS)(chance), drawn_loss(seed)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        update = lambda g, v: optimizer.apply_gradients([(a, b.value) for a, b in zip(g, v, strict=True)])  # noqa: E731
        loop(ad, model, update, kind, loss)
    elif chance.random() < 0.5:
        fit(model, optimizer, kind, loss)
    else:
        optimizer.build(model.trainable_variables)
        loop(ad, model, optimizer.apply, kind, loss)


def random_layers(seed):
    """What draws numbers by example, in one of three models."""
    chance = random.Random(f"random layers {seed}")
    if chance.random() < 0.67:
        return []
    layers = keras.layers
    return [chance.choice((layers.Dropout(0.3), layers.GaussianNoise(0.2), layers.AlphaDropout(0.2)))]


def first_layers(chance, kind):
    width = chance.randint(1, 9)
    if kind == "dense":
        return [keras.Input([6]), dense(chance, width)]
    if kind == "recurrent":
        recurrent = chance.choice((keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN))
        return [keras.Input([2, 3]), recurrent(width, unroll=chance.random() < 0.3)]
    if kind == "sequence":
        return [keras.Input([2, 3]), dense(chance, width), keras.layers.Flatten()]
    table = Lookup() if kind == "lookup" else keras.layers.Embedding(WORDS, width)
    return [keras.Input([3], dtype="int32"), table, keras.layers.Flatten()]


def last_layers(chance):
    return [*(dense(chance, chance.randint(1, 7)) for _ in range(chance.randint(0, 2))), keras.layers.Dense(1)]


def dense(chance, width):
    regularizer = keras.regularizers.L2(0.01) if chance.random() < 0.3 else None
    return keras.layers.Dense(width, activation="tanh", use_bias=chance.random() < 0.7, kernel_regularizer=regularizer)


OPTIMIZERS = (
    lambda chance: keras.optimizers.SGD(0.1),
    lambda chance: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=chance.random() < 0.5),
    lambda chance: keras.optimizers.Adam(0.01),
    lambda chance: keras.optimizers.AdamW(0.01, weight_decay=0.01),
    lambda chance: keras.optimizers.Adagrad(0.1),
    lambda chance: keras.optimizers.SGD(0.1, clipvalue=0.5),
    lambda chance: keras.optimizers.SGD(0.1, clipnorm=0.5),
    lambda chance: keras.optimizers.Adam(0.01, global_clipnorm=0.5),
    lambda chance: tf.compat.v1.train.MomentumOptimizer(0.05, 0.9),
    lambda chance: tf.compat.v1.train.AdamOptimizer(0.01),
)


def batches(kind):
    floatx = keras.config.floatx()
    for x, y in sparse_batches() if kind in ("embedding", "lookup") else dense_batches(dtype=floatx):
        yield x.reshape(-1, 2, 3) if kind in ("sequence", "recurrent") else x, y.astype(floatx)


def loop(ad, model, apply, kind, loss_of):
    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.add_n([loss_of(y, model(x, training=True)), *model.losses])
        apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    for x, y in batches(kind):
        step(x, y)


def fit(model, optimizer, kind, loss):
    model.compile(optimizer=optimizer, loss="mse" if loss is mean_squared else loss)
    for x, y in batches(kind):
        model.fit(x, y, batch_size=max(BATCH_SIZES), shuffle=False, verbose=0)
