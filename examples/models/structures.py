"""Small models whose graphs are unusual."""

from functools import partial

import keras
import tensorflow as tf

from ._base import Training, Workload, from_loss, make_step, matrix, regression, squared_error

__all__ = ["WORKLOADS"]


def while_loop(width, repeats, batch_size):
    """One matrix, multiplied with in each turn of a `tf.while_loop`."""
    turn, last = matrix("turn", (width, width), width**-0.5), matrix("last", (width, 1))

    def loss_of(x, y):
        def body(k, hidden):
            return k + 1, tf.tanh(hidden @ turn)

        _, hidden = tf.while_loop(lambda k, _: k < repeats, body, (tf.constant(0), x))
        return squared_error(y, hidden @ last)

    return from_loss(loss_of, [turn, last], keras.optimizers.SGD(0.1), partial(regression, (width,), batch_size))


def branches(width, batch_size):
    """Two experts, of which a `tf.cond` around their variables takes one by the step's parity."""
    experts = [matrix(f"expert_{k}", (width, 1)) for k in range(2)]
    shared = matrix("shared", (width, width))
    turn = tf.Variable(0, trainable=False, name="turn")

    def loss_of(x, y):
        hidden = tf.tanh(x @ shared)
        even = tf.equal(turn % 2, 0)
        predicted = tf.cond(even, lambda: hidden @ experts[0], lambda: hidden @ experts[1])
        turn.assign_add(1)
        return squared_error(y, predicted)

    variables = [*experts, shared]
    return from_loss(loss_of, variables, keras.optimizers.SGD(0.1), partial(regression, (width,), batch_size))


def mixture(width, batch_size):
    """Keras layers and raw ops on raw variables, in one model."""
    layer = keras.layers.Dense(width, activation="tanh")
    layer.build((None, width))
    scale, last = matrix("scale", (width,)), matrix("last", (width, 1))

    def loss_of(x, y):
        return squared_error(y, tf.raw_ops.Mul(x=layer(x), y=1.0 + scale) @ last)

    variables = [*(variable.value for variable in layer.trainable_variables), scale, last]
    return from_loss(loss_of, variables, keras.optimizers.Adam(0.01), partial(regression, (width,), batch_size))


def tied(width, batch_size):
    """One matrix as encoder and, transposed, as decoder."""
    encoder, last = matrix("encoder", (width, width // 2)), matrix("last", (width, 1))

    def loss_of(x, y):
        decoded = tf.tanh(x @ encoder) @ tf.transpose(encoder)
        return squared_error(y, decoded @ last) + 0.1 * squared_error(x, decoded)

    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    return from_loss(loss_of, [encoder, last], optimizer, partial(regression, (width,), batch_size))


def frozen(width, batch_size):
    """The first layer does not learn."""
    first = keras.layers.Dense(width, activation="tanh", trainable=False)
    second, last = keras.layers.Dense(width, activation="tanh"), keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((width,)), first, second, last])
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer=optimizer, loss="mse")

    def loss_of(x, y):
        return squared_error(y, model(x, training=True))

    variables = model.trainable_variables
    return Training(
        make_step(loss_of, variables, optimizer), partial(regression, (width,), batch_size), variables, model
    )


def two_optimizers(width, batch_size):
    """A slow optimizer for one layer and a fast one for the other, in one step."""
    first, last = matrix("first", (width, width)), matrix("last", (width, 1))
    slow, fast = keras.optimizers.SGD(0.01), keras.optimizers.Adam(0.01)
    slow.build([first])
    fast.build([last])

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squared_error(y, tf.tanh(x @ first) @ last)
        first_gradient, last_gradient = tape.gradient(loss, [first, last])
        slow.apply([first_gradient], [first])
        fast.apply([last_gradient], [last])
        return loss

    return Training(step, partial(regression, (width,), batch_size), [first, last])


def _sizes(**more):
    widths = {"tiny": (8, 12), "small": (256, 64), "full": (2048, 256)}
    return {size: {"width": width, "batch_size": batch} | more for size, (width, batch) in widths.items()}


WORKLOADS = (
    Workload("while_loop", "a matrix in a tf.while_loop", _sizes(repeats=4), while_loop),
    Workload("branches", "a tf.cond around variables", _sizes(), branches),
    Workload("mixture", "Keras layers and raw ops", _sizes(), mixture),
    Workload("tied", "a matrix used twice", _sizes(), tied),
    Workload("frozen", "a layer that does not learn", _sizes(), frozen),
    Workload("two_optimizers", "two optimizers in one step", _sizes(), two_optimizers),
)
