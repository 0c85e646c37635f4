"""Custom metrics: a confusion matrix, the largest error, the last value, a running median, a set of seen classes.

Kind: metrics
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(64)
x, y = rng.normal(size=(46, 4)).astype("float32"), rng.integers(0, 3, 46)


class Kappa(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="kappa")
        self.matrix = self.add_weight(name="matrix", shape=(3, 3), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        labels = tf.cast(tf.reshape(y_true, [-1]), tf.int64)
        self.matrix.assign_add(tf.math.confusion_matrix(labels, tf.argmax(y_pred, 1), 3, dtype=tf.float32))

    def result(self):
        total = tf.reduce_sum(self.matrix)
        agreed = tf.linalg.trace(self.matrix) / total
        chance = tf.reduce_sum(tf.reduce_sum(self.matrix, 0) * tf.reduce_sum(self.matrix, 1)) / total**2
        return (agreed - chance) / (1 - chance + 1e-6)


class Extremes(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="extremes")
        self.top = self.add_weight(name="top", initializer="zeros")
        self.median = self.add_weight(name="median", initializer="zeros")
        self.seen = self.add_weight(name="seen", shape=(3,), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        confidence = tf.reduce_max(y_pred, axis=1)
        self.top.assign(tf.maximum(self.top, tf.reduce_max(confidence)))
        self.median.assign(0.5 * self.median + 0.5 * tf.sort(confidence)[tf.shape(confidence)[0] // 2])
        labels = tf.cast(tf.reshape(y_true, [-1]), tf.int32)
        self.seen.assign(tf.maximum(self.seen, tf.reduce_max(tf.one_hot(labels, 3), axis=0)))

    def result(self):
        return self.top + self.median + tf.reduce_sum(self.seen)


def spread(y_true, y_pred):
    return tf.math.reduce_std(y_pred, axis=1)


with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy", metrics=[Kappa(), Extremes(), spread])
    history = model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0)
    scores = model.evaluate(x, y, batch_size=15, verbose=0, return_dict=True)
found = {"weights": model.get_weights(), "history": history.history, "scores": scores}
