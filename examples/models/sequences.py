"""Models of sequences: masks, and loops over time written in every way there is."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from ._base import Training, Workload, from_loss, make_step, matrix, regression, sizes, squared_error

__all__ = ["WORKLOADS"]


def bidirectional(vocabulary, width, length, batch_size):
    """GRUs in both directions over sequences of unequal length; what is padded counts nowhere."""
    ids = keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width, mask_zero=True)(ids)
    x = layers.Bidirectional(layers.GRU(width, return_sequences=True))(x)
    x = layers.GlobalAveragePooling1D()(x)
    return _compiled(keras.Model(ids, layers.Dense(1)(x)), partial(_padded, vocabulary, length, batch_size))


def masked_attention(vocabulary, width, length, batch_size):
    """Attention under a padding mask, a causal mask and one that is given; the first reaches it through the layers."""
    ids = keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width, mask_zero=True)(ids)
    near = np.abs(np.subtract.outer(np.arange(length), np.arange(length))) < 3
    attend = layers.MultiHeadAttention(2, width // 2, use_bias=False)
    x = layers.Add()([x, attend(x, x, attention_mask=near[None], use_causal_mask=True)])
    x = layers.LayerNormalization()(x)
    pooled = layers.MultiHeadAttention(2, width // 2, use_bias=False)(x[:, :1], x)
    return _compiled(keras.Model(ids, layers.Dense(1)(pooled[:, 0])), partial(_padded, vocabulary, length, batch_size))


def _compiled(model, batch):
    optimizer = keras.optimizers.Adam(1e-2, epsilon=1e-4)
    model.compile(optimizer=optimizer, loss="mse")
    step = make_step(lambda ids, y: squared_error(y, model(ids, training=True)), model.trainable_variables, optimizer)
    return Training(step, batch, model.trainable_variables, model)


def _padded(vocabulary, length, batch_size, number):
    """Ids, zeros behind the end of each sequence, and a number for each sequence."""
    random = np.random.default_rng(number)
    ids = random.integers(1, vocabulary, size=(batch_size, length))
    ids[np.arange(length) >= random.integers(1, length + 1, size=(batch_size, 1))] = 0
    return ids.astype(np.int32), (ids.sum(1, keepdims=True) % 5 / 5).astype(np.float32)


class _MinimalCell(layers.Layer):
    """A recurrent cell with one gate (Zhou et al., 2016)."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = self.state_size = units
        self.gate, self.candidate = (layers.Dense(units, activation=kind) for kind in ("sigmoid", "tanh"))

    def build(self, input_shape):
        for dense in (self.gate, self.candidate):
            dense.build((None, input_shape[-1] + self.units))

    def call(self, x, states):
        [state] = states
        gate = self.gate(ops.concatenate([x, state], -1))
        state = (1 - gate) * state + gate * self.candidate(ops.concatenate([x, gate * state], -1))
        return state, [state]


def custom_cell(width, length, batch_size):
    """A cell of the user's in `keras.layers.RNN`."""
    model = keras.Sequential([keras.Input((length, width)), layers.RNN(_MinimalCell(width)), layers.Dense(1)])
    return _compiled(model, partial(regression, (length, width), batch_size))


def tensor_array(width, length, batch_size):
    """A loop of TensorFlow's over time that reads from one `tf.TensorArray` and writes to another."""
    turn, enter, last = _recurrent(width)

    def loss_of(x, y):
        steps = tf.TensorArray(tf.float32, length).unstack(tf.transpose(x, [1, 0, 2]))

        def body(k, state, states):
            state = tf.tanh(steps.read(k) @ enter + state @ turn)
            return k + 1, state, states.write(k, state)

        start = (tf.constant(0), tf.zeros_like(x[:, 0]), tf.TensorArray(tf.float32, length))
        _, _, states = tf.while_loop(lambda k, *_: k < length, body, start)
        return squared_error(y, tf.reduce_mean(tf.ensure_shape(states.stack(), [length, None, width]), 0) @ last)

    return _of_sequences(loss_of, [turn, enter, last], width, length, batch_size)


def scan(width, length, batch_size):
    """`tf.scan` over time, and `tf.map_fn` over the examples."""
    turn, enter, last = _recurrent(width)

    def loss_of(x, y):
        states = tf.scan(
            lambda state, now: tf.tanh(now @ enter + state @ turn), tf.transpose(x, [1, 0, 2]), tf.zeros_like(x[:, 0])
        )
        predicted = tf.map_fn(lambda row: tf.linalg.matvec(last, row, transpose_a=True), states[-1])
        return squared_error(y, tf.ensure_shape(predicted, [None, 1]))

    return _of_sequences(loss_of, [turn, enter, last], width, length, batch_size)


def keras_ops(width, length, batch_size):
    """`keras.ops` alone: two loops, sorted values, a softmax, an einsum."""
    turn, enter, last = (keras.Variable(variable) for variable in _recurrent(width))

    def loss_of(x, y):
        def advance(state, now):
            state = ops.tanh(ops.matmul(now, enter) + ops.matmul(state, turn))
            return state, ops.square(state)

        state, powers = ops.scan(advance, ops.zeros_like(x[:, 0]), ops.transpose(x, (1, 0, 2)))
        state = ops.fori_loop(0, 2, lambda _, state: ops.sin(ops.matmul(state, turn)) + state, state)
        weights = ops.softmax(ops.sort(powers, axis=0), axis=0)
        pooled = ops.einsum("tbw,tbw->bw", weights, ops.transpose(x, (1, 0, 2))) + state
        return ops.mean(ops.square(y - ops.matmul(pooled, last)))

    return _of_sequences(loss_of, [turn, enter, last], width, length, batch_size)


def _recurrent(width):
    return matrix("turn", (width, width)), matrix("enter", (width, width)), matrix("last", (width, 1))


def _of_sequences(loss_of, variables, width, length, batch_size):
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    return from_loss(loss_of, variables, optimizer, partial(regression, (length, width), batch_size))


_OF_WORDS = sizes("vocabulary width length batch_size", tiny=(30, 6, 7, 12), small=(4000, 128, 24, 16),
                  full=(30000, 512, 128, 64))  # fmt: skip
_OF_NUMBERS = sizes("width length batch_size", tiny=(6, 5, 12), small=(128, 16, 32), full=(1024, 64, 128))

WORKLOADS = (
    Workload("bidirectional", "GRUs in both directions under a mask", _OF_WORDS, bidirectional),
    Workload("masked_attention", "attention under three kinds of masks", _OF_WORDS, masked_attention),
    Workload("custom_cell", "a cell of the user's in keras.layers.RNN", _OF_NUMBERS, custom_cell),
    Workload("tensor_array", "tf.TensorArray in a loop", _OF_NUMBERS, tensor_array),
    Workload("scan", "tf.scan and tf.map_fn", _OF_NUMBERS, scan),
    Workload("keras_ops", "a step of keras.ops alone", _OF_NUMBERS, keras_ops),
)
