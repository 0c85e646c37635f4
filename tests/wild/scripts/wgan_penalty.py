"""A Wasserstein GAN with a gradient penalty: three steps of the critic for one of the generator, second derivatives.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(23).normal(size=(32, 5)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    critic = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    maker = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(5)])
    critic_optimizer, maker_optimizer = keras.optimizers.SGD(0.02), keras.optimizers.SGD(0.02)
    random = tf.random.Generator.from_seed(23)

    @ad.function
    def critic_step(real):
        rows = tf.shape(real)[0]
        made = maker(random.normal((rows, 3)))
        with tf.GradientTape() as tape:
            share = random.uniform((rows, 1))
            between = share * real + (1 - share) * made
            with tf.GradientTape() as inner:
                inner.watch(between)
                scores = critic(between)
            slopes = tf.sqrt(tf.reduce_sum(inner.gradient(scores, between) ** 2, axis=1) + 1e-6)
            penalty = tf.reduce_mean((slopes - 1) ** 2)
            loss = tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(real)) + 10 * penalty
        critic_optimizer.apply(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables)
        return loss

    @ad.function
    def maker_step(real):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(critic(maker(random.normal((tf.shape(real)[0], 3)))))
        maker_optimizer.apply(tape.gradient(loss, maker.trainable_variables), maker.trainable_variables)
        return loss

    losses = []
    for batch in ad.shard(tf.data.Dataset.from_tensor_slices(x).batch(9)):
        losses += [critic_step(batch) for _ in range(3)] + [maker_step(batch)]
found = {"weights": critic.get_weights() + maker.get_weights(), "losses": losses}
