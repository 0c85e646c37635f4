"""Layers that loop, have a state, or let examples see each other; drawn from a seed for every second model."""

import random

import keras
import tensorflow as tf


def middle_kinds(seed):
    """None, or one."""
    chance = random.Random(f"middle layers {seed}")
    return [] if chance.random() < 0.5 else [chance.choice(LAYERS)]


class Turned(keras.layers.Layer):
    """A loop of TensorFlow over three turns."""

    def build(self, input_shape):
        self.weight = self.add_weight(shape=(input_shape[-1], input_shape[-1]), name="turn")

    def call(self, x):
        return tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h @ self.weight + x)), (0, x))[1]


class ByRow(keras.layers.Layer):
    """A function of one example, mapped."""

    def build(self, input_shape):
        self.weight = self.add_weight(shape=(input_shape[-1], 3), name="row")

    def call(self, x):
        return tf.map_fn(lambda row: tf.tanh(tf.linalg.matvec(self.weight, row, transpose_a=True)), x)


class Running(keras.layers.Layer):
    """A running mean of all examples, their number, and the largest value that was seen."""

    def build(self, input_shape):
        self.mean = self.add_weight(shape=(input_shape[-1],), initializer="zeros", trainable=False, name="mean")
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")
        self.largest = self.add_weight(shape=(), initializer="ones", trainable=False, name="largest")

    def call(self, x, training=False):
        if training:
            self.count.assign_add(tf.cast(tf.shape(x)[0], x.dtype))
            self.mean.assign_add(tf.reduce_sum(tf.stop_gradient(x) - self.mean, 0) / self.count)
            self.largest.assign(tf.maximum(self.largest, tf.reduce_max(tf.abs(tf.stop_gradient(x)))))
        return (x - self.mean) / self.largest


class Kept(keras.layers.Layer):
    """The last ten examples, which each new one looks at."""

    def build(self, input_shape):
        self.bank = self.add_weight(shape=(10, input_shape[-1]), initializer="zeros", trainable=False, name="bank")

    def call(self, x, training=False):
        seen = tf.nn.softmax(tf.matmul(x, self.bank.value, transpose_b=True)) @ self.bank
        if training:
            self.bank.assign(tf.concat([tf.stop_gradient(x), self.bank], 0)[:10])
        return x + 0.5 * seen


class Attending(keras.layers.Layer):
    """Examples that look at the other ones of their batch."""

    def call(self, x):
        return x + tf.nn.softmax(0.5 * tf.matmul(x, x, transpose_b=True)) @ x


class Normalized(keras.layers.Layer):
    """Mean and spread of the batch, with gradients, and a running mean of them."""

    def build(self, input_shape):
        self.mean = self.add_weight(shape=(input_shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, x, training=False):
        mean, variance = tf.nn.moments(x, [0])
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * tf.stop_gradient(mean))
        return 0.5 * x + 0.5 * (x - mean) / tf.sqrt(variance + 0.1) + self.mean


LAYERS = (Turned, ByRow, Running, Kept, Attending, Normalized, keras.layers.LayerNormalization, keras.layers.PReLU)
