"""A supervised contrastive loss: all pairs of one class attract; examples without a partner in the batch are left out.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(144)
x, y = rng.normal(size=(45, 6)).astype("float32"), rng.integers(0, 5, 45)


def contrastive(labels, features):
    labels = tf.reshape(labels, [-1, 1])
    logits = tf.matmul(features, features, transpose_b=True) / 0.3
    logits -= tf.stop_gradient(tf.reduce_max(logits, axis=1, keepdims=True))
    others = 1.0 - tf.eye(tf.shape(features)[0])
    same = tf.cast(labels == tf.transpose(labels), tf.float32) * others
    logs = logits - tf.math.log(tf.reduce_sum(tf.exp(logits) * others, axis=1, keepdims=True))
    partners = tf.reduce_sum(same, axis=1)
    mean = tf.math.divide_no_nan(tf.reduce_sum(same * logs, axis=1), partners)
    return -tf.reduce_mean(tf.boolean_mask(mean, partners > 0))


with autodist.scope():
    normal = keras.layers.UnitNormalization()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(4), normal])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), contrastive)
    history = model.fit(x, y, batch_size=13, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
