"""Blocks of steps that are timed in turns, and layers that several scripts of this folder need."""

import time

import keras
import tensorflow as tf


def make_step(features, width, layers):
    """A step of a network without biases, whose gradients are applied by hand."""
    weights = [
        tf.Variable(0.03 * tf.random.stateless_normal([width if k else features, width], [1, k]), name=f"layer_{k}")
        for k in range(layers)
    ]

    def step(x):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def attention(hidden, num_layers, num_heads, width):
    """Layers of attention, each followed by two dense ones, as in an encoder."""
    layers = keras.layers
    for _ in range(num_layers):
        attended = layers.MultiHeadAttention(num_heads, width // num_heads)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        wide = layers.Dense(4 * width, activation="gelu")(hidden)
        hidden = layers.LayerNormalization()(hidden + layers.Dense(width)(wide))
    return hidden


def block(step, batch, steps):
    """Seconds per step."""
    started = time.perf_counter()
    for _ in range(steps):
        step(batch).numpy()
    return (time.perf_counter() - started) / steps


def block_in_scope(ad, step, batch, steps):
    """The same within a scope."""
    with ad.scope():
        return block(step, batch, steps)


def in_turns(ways, measure, rounds):
    """By name, what a function returns for each of several things, each round in the order opposite to the last."""
    found = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 else reversed(ways):
            found[name].append(measure(ways[name]))
    return found
