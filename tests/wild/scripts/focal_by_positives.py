"""A detector's focal loss, divided by the number of positive anchors of the batch.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(10)
x = rng.normal(size=(30, 12)).astype("float32")
hits = (rng.random((30, 20)) < np.linspace(0.0, 0.3, 30)[:, None]).astype("float32")
boxes = rng.normal(size=(30, 20, 4)).astype("float32")


class Detector(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.layers.Dense(16, "relu")
        self.scores, self.boxes = keras.layers.Dense(20), keras.layers.Dense(80)

    def call(self, x):
        features = self.body(x)
        return self.scores(features), tf.reshape(self.boxes(features), [-1, 20, 4])

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        (hits, boxes), (scores, guesses) = y, y_pred
        positives = tf.maximum(tf.reduce_sum(hits), 1.0)
        focal = keras.losses.binary_focal_crossentropy(hits[..., None], scores[..., None], from_logits=True)
        shape = tf.reduce_sum(tf.abs(boxes - guesses), axis=-1) * hits
        return (tf.reduce_sum(focal) + tf.reduce_sum(shape)) / positives


with autodist.scope():
    model = Detector()
    model.compile(keras.optimizers.Adam(0.01))
    history = model.fit(x, (hits, boxes), batch_size=8, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
