"""ActNorm: scale and shift are set from the first batch, in a branch; then a flow with its log-determinant.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(435)
x = 2.0 + 3.0 * rng.normal(size=(46, 6)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])
    kept = [tf.Variable(False, trainable=False)]
    scale, shift = tf.Variable(tf.ones(6)), tf.Variable(tf.zeros(6))

    def loss_of(a):
        if not kept[0]:
            mean, variance = tf.nn.moments(a, axes=[0])
            shift.assign(-mean)
            scale.assign(1.0 / tf.sqrt(variance + 1e-3))
            kept[0].assign(True)
        z = (a + shift) * scale
        s = tf.tanh(model(z[:, :3]))
        out = tf.concat([z[:, :3], z[:, 3:] * tf.exp(s) + model(z[:, :3] * 0.5)], axis=1)
        logdet = tf.reduce_sum(tf.math.log(tf.abs(scale))) + tf.reduce_sum(s, axis=1)
        return tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(out), axis=1) - logdet)

    optimizer, variables = keras.optimizers.SGD(0.01), [*model.trainable_variables, scale, shift]

    @ad.function
    def step(a):
        with tf.GradientTape() as tape:
            loss = loss_of(a)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x,)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [v.numpy() for v in variables],
    "slots": [v.numpy() for v in optimizer.variables],
    "kept": [v.numpy() for v in kept],
    "losses": losses,
}
