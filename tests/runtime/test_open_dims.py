"""Batches whose lengths differ: two traces serve all where their dataset leaves lengths open."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import autodist
from autodist.errors import CaptureError
from autodist.runtime.data import ArgumentSplits, Declared, LocalArray, flatten

from .programs import run_distributed, run_plain

RANDOM = np.random.default_rng(0)
BATCH = 6
WORDS = [RANDOM.integers(1, 20, 2 + (k // 4) % 7) for k in range(5 * BATCH)]
LABELS = RANDOM.integers(0, 2, len(WORDS))
TAGS = [words % 3 for words in WORDS]

pytestmark = [pytest.mark.usefixtures("doubles"), pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")]


def padded(labels):
    signature = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None] * np.ndim(labels[0]), tf.int64)
    words = tf.data.Dataset.from_generator(lambda: zip(WORDS, labels, strict=True), output_signature=signature)
    batches = words.padded_batch(BATCH)
    return batches.apply(tf.data.experimental.assert_cardinality(len(WORDS) // BATCH))


def recurrent(embedded):
    return layers.Dense(3)(layers.GRU(4, return_sequences=True)(embedded)), TAGS


def attentive(embedded):
    attended = layers.MultiHeadAttention(2, 4)(embedded, embedded, use_causal_mask=True)
    return layers.Dense(3)(layers.LayerNormalization()(embedded + attended)), TAGS


def convolved(embedded):
    pooled = layers.GlobalMaxPooling1D()(layers.Conv1D(4, 2, padding="same", activation="tanh")(embedded))
    return layers.Dense(2)(layers.Dropout(0.3, seed=4)(pooled)), LABELS


class DropoutByKernels(layers.Layer):
    def call(self, x, training=False):
        return tf.nn.dropout(x, 0.3) if training else x


def dropped_by_kernels(embedded):
    """Random numbers that begin again in each trace."""
    pooled = layers.GlobalMaxPooling1D()(DropoutByKernels()(embedded))
    return layers.Dense(2)(pooled), LABELS


class ByLength(layers.Layer):
    """Does something else with long sequences: a step for which replicas trace each length."""

    def call(self, x):
        x = tf.nn.dropout(x, 0.3)
        return tf.cond(tf.shape(x)[1] > 4, lambda: 2 * x, lambda: x)

    def compute_output_shape(self, shape):
        return shape


def dropped_by_length(embedded):
    return layers.Dense(2)(layers.GlobalMaxPooling1D()(ByLength()(embedded))), LABELS


def fitted(scope, body, *, evaluates=True):
    with scope() as ad:
        words = keras.Input([None], dtype="int64")
        found, labels = body(layers.Embedding(20, 8, mask_zero=body is recurrent)(words))
        model = keras.Model(words, found)
        model.compile(keras.optimizers.SGD(0.5), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        before = model.get_weights()
        losses = model.fit(padded(labels), epochs=2, verbose=0).history["loss"]
        after = model.evaluate(padded(labels), verbose=0) if evaluates else 0.0
        traces = ad and len(ad.strategies)
    assert any(np.ptp(one - other) > 1e-3 for one, other in zip(before, model.get_weights(), strict=True))
    return [*model.get_weights(), losses, after], traces


LENGTHS = len({max(map(len, WORDS[k : k + BATCH])) for k in range(0, len(WORDS), BATCH)})
ONE = {"spec": autodist.ResourceSpec.local()}


@pytest.mark.parametrize(("body", "options", "traces"), [
    (recurrent, ONE, 2), (attentive, ONE, 2), (convolved, ONE, 2), (convolved, {}, 2), (attentive, {}, 2),
    (dropped_by_kernels, ONE, 1), (dropped_by_kernels, {}, 1), pytest.param(recurrent, {}, 2, marks=pytest.mark.slow),
])  # fmt: skip
def test_batches_of_all_lengths(body, options, traces):
    expected, _ = run_plain(lambda scope: fitted(scope, body))
    found, traced = run_distributed(lambda scope: fitted(scope, body), **options)
    assert traced == traces
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12)


def test_random_numbers_that_begin_again_in_each_trace():
    with pytest.raises(CaptureError, match="draws random numbers by kernels, which begin again in each") as raised:
        run_distributed(lambda scope: fitted(scope, dropped_by_length))
    assert "keras.layers.Dropout" in raised.value.hint


@pytest.mark.parametrize("limit", [None, 5])
def test_python_code_of_a_function_with_a_signature_sees_what_it_declares(limit):
    features = RANDOM.normal(size=(3, 4, 5, 3))

    def program(scope):
        with scope() as ad:
            w = tf.Variable(tf.ones([3, 1], tf.float64))

            @tf.function(input_signature=[tf.TensorSpec([None, limit, 3], tf.float64)])
            def step(x):
                length = x.shape[1]
                with tf.GradientTape() as tape:
                    total = tf.add_n([x[:, t] * (t + 1.0) for t in range(length)]) if length else x[:, 0]
                    loss = tf.reduce_mean(tf.square(total @ w))
                w.assign_sub(0.01 * tape.gradient(loss, w))
                return loss

            losses = [float(step(tf.constant(x))) for x in features]
        return losses, w.numpy(), ad and len(ad.strategies)

    (expected, w, _), (found, moved, traces) = run_plain(program), run_distributed(program, **ONE)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(moved, w, rtol=1e-10)
    assert np.ptp(moved) > 1e-3
    assert traces == 1


def test_what_cannot_be_traced_with_open_lengths_is_traced_for_each(caplog):
    class Unrolled(layers.Layer):
        def call(self, x):
            return keras.ops.sum(keras.ops.stack([x[:, t] * (t + 1) for t in range(x.shape[1])], axis=1), axis=1)

        def compute_output_shape(self, shape):
            return (shape[0], shape[2])

    def body(embedded):
        return layers.Dense(2)(Unrolled()(embedded)), LABELS

    caplog.set_level(logging.INFO, "autodist")
    _, traces = run_distributed(lambda scope: fitted(scope, body, evaluates=False), **ONE)
    assert traces == LENGTHS
    assert "traced for each shape of its batches" in caplog.text


def test_dims_are_open_of_which_calls_have_had_two_sizes():
    splits, declared = ArgumentSplits(1), Declared(((None, None, None), (None, 3)))

    def shapes(height, width, declared=declared):
        arguments = flatten((np.zeros([4, height, width]), np.zeros([4, 3])), {}, declared=declared)
        return splits.of("step", arguments).shapes

    assert shapes(5, 6) == ((4, 5, 6), (4, 3))
    assert shapes(5, 6) == ((4, 5, 6), (4, 3))
    assert shapes(5, 7) == ((4, 5, None), (4, 3))
    assert shapes(8, 6) == ((4, None, None), (4, 3))
    assert shapes(5, 6) == ((4, None, None), (4, 3))
    assert shapes(9, 9, Declared(((None, None, None),))) == ((4, None, None), (4, 3)), "Keras adds weights"
    assert shapes(9, 9, Declared()) == ((4, 9, 9), (4, 3)), "one device would trace each shape"
    assert shapes(9, 9, Declared(((None, None), (None, 3)))) == ((4, 9, 9), (4, 3)), "of other ranks"


def test_replicas_trace_again_where_other_dims_have_one_length():
    splits, declared = ArgumentSplits(2), Declared(((None, None, None), (None, None)))

    def given(*shapes, rows=None):
        arrays = [np.zeros(shape) if rows is None else np.zeros(shape).view(LocalArray) for shape in shapes]
        for array in arrays if rows is not None else ():
            array.rows = rows
        return splits.of(rows is None, flatten(tuple(arrays), {}, declared=declared))

    assert given((4, 5, 5), (4, 5)).ties == ()
    found = given((4, 6, 7), (4, 7))
    assert (found.shapes, found.ties) == (((4, None, None), (4, None)), (0, 1, 1))
    assert found.lengths.sizes == (6, 7)
    assert given((4, 9, 8), (4, 8)).key == found.key
    assert given((4, 9, 8), (4, 9)).key != found.key
    assert given((4, 1, 8), (4, 8)).shapes == ((4, 1, 8), (4, 8)), "a size of 1 may stand for any other"
    assert given((4, 9, 8), (4, 8)).key == found.key
    given((2, 5, 5), (2, 5), rows=4)
    assert given((2, 6, 7), (2, 7), rows=4).lengths.sizes == (6, 7), "all workers have these lengths"


def test_parts_of_workers_own_may_have_lengths_of_their_own():
    splits, declared = ArgumentSplits(2), Declared(((None, None),))
    for length in (5, 6):
        found = splits.of("step", flatten((np.zeros((4, length)).view(LocalArray),), {}, declared=declared))
        assert (found.open_dims, found.lengths) == ((), None)


def test_declared_shapes_are_those_of_dense_tensors():
    spec = {"a": tf.TensorSpec([None, 2]), "b": (tf.TensorSpec(None), tf.RaggedTensorSpec([2, None])), "c": None}
    assert Declared.of(spec).shapes == ((None, 2), None, (None,), (3,)), "values and row splits of a ragged one"
    assert Declared.of(spec).has_open_rows
    assert not Declared.of(tf.RaggedTensorSpec([2, None])).has_open_rows, "though it has any number of values"
    assert not Declared.of(tf.TensorSpec([])).has_open_rows
    assert not Declared.of(None).has_open_rows
