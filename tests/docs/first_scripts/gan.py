"""A custom loop: two networks against each other with an optimizer each, batch normalization, Dropout, a checkpoint."""

import keras
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

import autodist

NOISE, BATCH = 16, 64

images = (load_digits().images[..., None] / 8 - 1).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(images).shuffle(2000, seed=4).batch(BATCH).prefetch(2)

ad = autodist.AutoDist()
with ad.scope():
    generator = keras.Sequential(
        [
            keras.Input((NOISE,)),
            layers.Dense(4 * 4 * 32, use_bias=False),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Reshape((4, 4, 32)),
            layers.Conv2DTranspose(16, 3, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )
    discriminator = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    of_generator, of_discriminator = (keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(2))

    @ad.function
    def train_step(real):
        noise = tf.random.normal([tf.shape(real)[0], NOISE])
        with tf.GradientTape() as of_g, tf.GradientTape() as of_d:
            fake_score = discriminator(generator(noise, training=True), training=True)
            real_score = discriminator(real, training=True)
            g_loss = cross_entropy(tf.ones_like(fake_score), fake_score)
            d_loss = cross_entropy(tf.ones_like(real_score), real_score)
            d_loss += cross_entropy(tf.zeros_like(fake_score), fake_score)
        for tape, loss, network, optimizer in (
            (of_g, g_loss, generator, of_generator),
            (of_d, d_loss, discriminator, of_discriminator),
        ):
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return g_loss, d_loss

    for epoch in range(3):
        for real in ad.shard(dataset):
            g_loss, d_loss = train_step(real)
        print(f"epoch {epoch}: generator {float(g_loss):.3f}, discriminator {float(d_loss):.3f}")
    generator.save("result.keras")
    tf.train.Checkpoint(generator=generator, discriminator=discriminator).save("checkpoints/one")
