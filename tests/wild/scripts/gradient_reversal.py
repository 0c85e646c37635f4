"""Domain-adversarial training: a layer with a custom gradient reverses its sign, by a factor that grows.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(113)
x = rng.normal(size=(40, 5)).astype("float32")
y, domain = rng.integers(0, 3, 40), (np.arange(40) % 2).astype("float32")


@tf.custom_gradient
def reversed_by(x, factor):
    return tf.identity(x), lambda gradient: (-factor * gradient, None)


ad = autodist.AutoDist()
with ad.scope():
    body = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh")])
    label, place = keras.layers.Dense(3), keras.layers.Dense(1)
    label.build((None, 6))
    place.build((None, 6))
    optimizer = keras.optimizers.SGD(0.2, momentum=0.5)
    variables = body.trainable_variables + label.trainable_variables + place.trainable_variables

    @ad.function
    def step(x, y, domain, factor):
        with tf.GradientTape() as tape:
            features = body(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, label(features)))
            guesses = place(reversed_by(features, factor))[:, 0]
            loss += tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(domain, guesses))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = []
    for k, batch in enumerate(ad.shard(tf.data.Dataset.from_tensor_slices((x, y, domain)).batch(9))):
        losses.append(step(*batch, tf.constant(0.2 * k)))
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
