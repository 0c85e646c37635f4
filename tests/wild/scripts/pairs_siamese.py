"""A siamese network with a contrastive loss of pairs, as in examples of face recognition.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(1)
left, right = rng.normal(size=(2, 50, 6)).astype("float32")
same = (left[:, 0] * right[:, 0] > 0).astype("float32")


def contrastive(y_true, distance):
    y_true = tf.cast(y_true, distance.dtype)
    return tf.reduce_mean(y_true * distance**2 + (1 - y_true) * tf.maximum(1 - distance, 0) ** 2)


with autodist.scope():
    tower = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    gap = keras.layers.Lambda(lambda pair: tf.norm(pair[0] - pair[1] + 1e-4, axis=1, keepdims=True), output_shape=(1,))
    model = keras.Model([a, b], gap([tower(a), tower(b)]))
    model.compile(keras.optimizers.Adam(0.01), contrastive)
    history = model.fit([left, right], same[:, None], batch_size=14, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
