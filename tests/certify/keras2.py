"""Keras 2, the package `tf_keras`: its optimizers, `fit` and loops. It is imported by these cases only."""

import importlib
import importlib.util

import numpy as np
import tensorflow as tf

from .data import BATCH_SIZES, WORDS, Case, mean_squared

SIZE, COUNT = max(BATCH_SIZES), sum(BATCH_SIZES)
IS_INSTALLED = importlib.util.find_spec("tf_keras") is not None
OPTIMIZERS = {
    **{name: {"learning_rate": 0.01} for name in ("Adafactor", "Adam", "AdamW", "Adamax", "Lion", "Nadam", "RMSprop")},
    "Adadelta": {"learning_rate": 0.5},
    "Adagrad": {"learning_rate": 0.1},
    "Ftrl": {"learning_rate": 0.1},
    "SGD": {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01, "global_clipnorm": 0.1},
}
LEGACY = {
    **{name: {"learning_rate": 0.01} for name in ("Adam", "Adamax", "Nadam", "RMSprop")},
    "Adadelta": {"learning_rate": 0.5},
    "Adagrad": {"learning_rate": 0.1},
    "Ftrl": {"learning_rate": 0.1},
    "SGD": {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True, "clipvalue": 0.1},
}


def arrays():
    random = np.random.default_rng(12)
    words = random.integers(WORDS, size=(COUNT, 3)).astype(np.int32)
    features = random.normal(size=(COUNT, 6)).astype(np.float32)
    return (words, features), (1 + np.tanh(features.sum(1, keepdims=True)) + words.sum(1, keepdims=True) / 9).astype(
        "f"
    )


def network(keras2):
    layers = keras2.layers
    words, features = keras2.Input([3], dtype="int32"), keras2.Input([6])
    rows = layers.Flatten()(layers.Embedding(WORDS, 4, name="table")(words))
    hidden = layers.Dense(5, activation="tanh", kernel_regularizer=keras2.regularizers.L2(0.01))(features)
    return keras2.Model([words, features], layers.Dense(1)(layers.concatenate([rows, hidden])))


def prepared():
    """Keras 2 as it is after its import, and a model."""
    keras2 = importlib.import_module("tf_keras")
    keras2.backend.clear_session()
    keras2.utils.set_random_seed(7)
    return keras2, network(keras2)


def fit(make, *, as_dataset=False, **options):
    """A case that trains by `fit`; `make` takes Keras 2 and makes the optimizer."""

    def train(ad):
        keras2, model = prepared()
        model.compile(make(keras2), "mse", metrics=["mae", keras2.metrics.RootMeanSquaredError()], **options)
        inputs, y = arrays()
        if as_dataset:
            model.fit(
                tf.data.Dataset.from_tensor_slices((inputs, y)).batch(SIZE), verbose=0, validation_data=(inputs, y)
            )
        else:
            weights = np.linspace(0.5, 1.5, COUNT, dtype=np.float32)
            model.fit(inputs, y, sample_weight=weights, batch_size=SIZE, shuffle=False, verbose=0)

    return Case(train)


def loop(ad):
    """By hand, with a loss scale that overflows in the second batch, on the last worker alone."""
    keras2, model = prepared()
    optimizer = keras2.mixed_precision.LossScaleOptimizer(keras2.optimizers.Adam(0.01), initial_scale=2.0**80)
    variables = model.trainable_variables

    @ad.function
    def step(words, features, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model([words, features], training=True)) + tf.add_n(model.losses)
            scaled = optimizer.get_scaled_loss(loss)
        gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    (words, features), y = arrays()
    y[2 * SIZE - 1] *= 1e17
    for begin in range(0, COUNT, SIZE):
        step(*(array[begin : begin + SIZE] for array in (words, features, y)))


def own(ad):
    """A subclassed model, built by its first batch, with a training step of its own."""
    keras2, _ = prepared()

    class Model(keras2.Model):
        def __init__(self):
            super().__init__()
            self.table, self.last = keras2.layers.Embedding(WORDS, 4), keras2.layers.Dense(1)

        def call(self, inputs):
            return self.last(tf.reduce_mean(self.table(inputs[0]), 1)) + tf.reduce_mean(inputs[1], 1, keepdims=True)

        def train_step(self, data):
            inputs, y = data
            with tf.GradientTape() as tape:
                loss = mean_squared(y, self(inputs, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    model = Model()
    model.compile(keras2.optimizers.Adam(0.01))
    model.fit(*arrays(), batch_size=SIZE, shuffle=False, verbose=0)


def schedule(keras2):
    return keras2.optimizers.SGD(
        keras2.optimizers.schedules.CosineDecay(0.1, 3), use_ema=True, ema_overwrite_frequency=2
    )


CASES = {
    **{f"keras2-{n}": fit(lambda k, n=n, o=o: getattr(k.optimizers, n)(**o)) for n, o in OPTIMIZERS.items()},
    **{f"keras2-legacy-{n}": fit(lambda k, n=n, o=o: getattr(k.optimizers.legacy, n)(**o)) for n, o in LEGACY.items()},
    "keras2-dataset": fit(lambda k: k.optimizers.Adam(0.01), as_dataset=True),
    "keras2-jit": fit(lambda k: k.optimizers.Adam(0.01, jit_compile=True), jit_compile=True),
    "keras2-schedule": fit(schedule),
    "keras2-loop": Case(loop),
    "keras2-own": Case(own),
}
