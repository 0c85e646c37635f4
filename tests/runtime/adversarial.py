"""Trains a generator against a critic, traced anew again and again; prints how many different losses there were."""

import sys

import keras
import tensorflow as tf
from certify.data import PlainModel, dense_batches, mean_squared

from autodist.runtime._orderings import keep_orderings_in_functions


def losses(x, y):
    """Those of a step in which the critic is called twice, updated, and called again."""
    critic, generator = PlainModel(), PlainModel()
    generator.variables[1] = tf.Variable(tf.ones([5, 6]) * 0.2, name="wide")
    generator.variables[2] = tf.Variable(tf.zeros([6]), name="wide_bias")
    one, two = keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.01)
    one.build(critic.variables)
    two.build(generator.variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            real = mean_squared(y, critic(x)) + tf.reduce_mean(critic(generator(x)))
        one.apply(tape.gradient(real, critic.variables), critic.variables)
        with tf.GradientTape() as tape:
            fake = tf.reduce_mean(tf.square(critic(generator(x)) - 1.0))
        two.apply(tape.gradient(fake, generator.variables), generator.variables)
        return real, fake

    return tuple(round(float(loss), 4) for _ in range(2) for loss in step(x, y))


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        keep_orderings_in_functions()
    batch = next(iter(dense_batches()))
    print(len({losses(*batch) for _ in range(30)}))
