"""Models whose backward passes are unusual."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._base import Training, Workload, from_loss, matrix, regression, sizes, squared_error

__all__ = ["WORKLOADS"]


def adversarial(width, units, batch_size):
    """Two networks against each other (Goodfellow et al., 2014), each with a tape and an optimizer of its own."""
    generator, critic = _perceptron(width, units, width), _perceptron(width, units, 1)
    makes, judges = (keras.optimizers.Adam(1e-2, beta_1=0.5, epsilon=1e-4) for _ in range(2))
    makes.build(generator.trainable_variables)
    judges.build(critic.trainable_variables)

    def step(real, noise):
        with tf.GradientTape() as tape:
            told = critic(tf.concat([real, generator(noise)], 0))
            loss = _cross_entropy(told, tf.concat([tf.ones_like(real[:, :1]), tf.zeros_like(noise[:, :1])], 0))
        judges.apply(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables)
        with tf.GradientTape() as tape:
            deceived = critic(generator(noise))
            cost = _cross_entropy(deceived, tf.ones_like(deceived))
        makes.apply(tape.gradient(cost, generator.trainable_variables), generator.trainable_variables)
        return loss

    variables = generator.trainable_variables + critic.trainable_variables
    return Training(step, partial(_real_and_noise, width, batch_size), variables)


def _perceptron(inputs, units, outputs):
    layers = [keras.Input((inputs,)), keras.layers.Dense(units, activation="tanh"), keras.layers.Dense(outputs)]
    return keras.Sequential(layers)


def _cross_entropy(logits, labels):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def _real_and_noise(width, batch_size, number):
    random = np.random.default_rng(number)
    real = 1 + 0.3 * random.standard_normal((batch_size, width), dtype=np.float32)
    return real, random.standard_normal((batch_size, width), dtype=np.float32)


@tf.custom_gradient
def _step_function(x):
    """The sign, whose gradient is that of a line near zero: a straight-through estimator."""
    return tf.sign(x), lambda upstream: upstream * tf.cast(tf.abs(x) < 1.0, x.dtype)


def _scaled(factor):
    """Multiplies with a matrix, by a gradient of its own that reaches the matrix as well."""

    @tf.custom_gradient
    def multiply(x):
        def backward(upstream, variables=None):
            grads = [2.0 * tf.matmul(x, upstream, transpose_a=True) for _ in variables]
            return tf.matmul(upstream, factor, transpose_b=True), grads

        return x @ factor, backward

    return multiply


def custom_gradient(width, batch_size):
    """Two `tf.custom_gradient`: of signs, and of a product with a variable."""
    first, last = matrix("first", (width, width)), matrix("last", (width, 1))
    multiply = _scaled(first)

    def loss_of(x, y):
        return squared_error(y, (_step_function(multiply(x)) + 0.1 * x) @ last)

    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    return from_loss(loss_of, [first, last], optimizer, partial(regression, (width,), batch_size))


def recompute(width, num_layers, batch_size):
    """Activations that are computed again in the backward pass: by `tf.recompute_grad`, and by a `RematScope`."""
    first = matrix("first", (width, width))
    again = tf.recompute_grad(lambda x: tf.nn.relu(x @ first + x))
    with keras.RematScope(mode="activations"):  # Keras 3.15 can't recompute whole layers inside of a tf.function
        layers = [keras.layers.Dense(width, activation="tanh") for _ in range(num_layers)]
    model = keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(1)])

    def loss_of(x, y):
        return squared_error(y, model(again(x), training=True))

    variables = [first, *(variable.value for variable in model.trainable_variables)]
    return from_loss(loss_of, variables, keras.optimizers.Adam(1e-3), partial(regression, (width,), batch_size))


WORKLOADS = (
    Workload(
        "adversarial",
        "two networks against each other, with two tapes",
        sizes("width units batch_size", tiny=(4, 8, 12), small=(64, 256, 64), full=(784, 1024, 128)),
        adversarial,
    ),
    Workload(
        "custom_gradient",
        "gradients by tf.custom_gradient",
        sizes("width batch_size", tiny=(8, 12), small=(256, 64), full=(2048, 256)),
        custom_gradient,
    ),
    Workload(
        "recompute",
        "activations that the backward pass computes again",
        sizes("width num_layers batch_size", tiny=(8, 2, 12), small=(256, 4, 64), full=(2048, 8, 256)),
        recompute,
    ),
)
