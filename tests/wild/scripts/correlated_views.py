"""Deep correlation of two views: covariances of the batch, their inverse roots, whitening by Cholesky.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(205)
x = rng.normal(size=(46, 6)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])

    def covariance(one, other):
        return tf.matmul(one, other, transpose_a=True) / (tf.cast(tf.shape(one)[0], tf.float32) - 1.0)

    def inverse_root(matrix):
        values, vectors = tf.linalg.eigh(matrix + 0.1 * tf.eye(3))
        return vectors @ tf.linalg.diag(values**-0.5) @ tf.transpose(vectors)

    def whitened(z):
        factor = tf.linalg.cholesky(covariance(z, z) + 0.1 * tf.eye(3))
        return tf.transpose(tf.linalg.triangular_solve(factor, tf.transpose(z)))

    def loss_of(a, b):
        one, other = (z - tf.reduce_mean(z, axis=0) for z in (model(a), model(b)))
        joint = inverse_root(covariance(one, one)) @ covariance(one, other) @ inverse_root(covariance(other, other))
        return 0.1 * tf.reduce_mean(tf.square(whitened(one) - whitened(other))) - tf.linalg.trace(
            joint @ tf.transpose(joint)
        )

    optimizer, variables = keras.optimizers.SGD(0.01), model.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, np.tanh(x[:, ::-1]))).batch(11))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
