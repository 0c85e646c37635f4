"""A GAN with two optimizers in one train_step; real and generated images share one batch.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(22).normal(size=(34, 5)).astype("float32")


class GAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.critic = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
        self.maker = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(5)])
        self.seeds = keras.random.SeedGenerator(22)

    def compile(self, critic_optimizer, maker_optimizer):
        super().compile()
        self.critic_optimizer, self.maker_optimizer = critic_optimizer, maker_optimizer
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, real):
        rows = tf.shape(real)[0]
        both = tf.concat([self.maker(keras.random.normal((rows, 3), seed=self.seeds)), real], axis=0)
        labels = tf.concat([tf.ones((rows, 1)), tf.zeros((rows, 1))], axis=0)
        labels += 0.05 * keras.random.uniform(tf.shape(labels), seed=self.seeds)
        with tf.GradientTape() as tape:
            critic_loss = self.loss_of(labels, self.critic(both))
        weights = self.critic.trainable_weights
        self.critic_optimizer.apply_gradients(zip(tape.gradient(critic_loss, weights), weights))
        noise = keras.random.normal((rows, 3), seed=self.seeds)
        with tf.GradientTape() as tape:
            maker_loss = self.loss_of(tf.zeros((rows, 1)), self.critic(self.maker(noise)))
        weights = self.maker.trainable_weights
        self.maker_optimizer.apply_gradients(zip(tape.gradient(maker_loss, weights), weights))
        return {"critic": critic_loss, "maker": maker_loss}


with autodist.scope():
    model = GAN()
    model.compile(keras.optimizers.Adam(0.01, beta_1=0.5), keras.optimizers.RMSprop(0.01))
    history = model.fit(tf.data.Dataset.from_tensor_slices(x).batch(10), epochs=2, verbose=0)
found = {
    "weights": model.critic.get_weights() + model.maker.get_weights(),
    "slots": [v.numpy() for v in model.critic_optimizer.variables + model.maker_optimizer.variables],
    "history": history.history,
}
