"""Losses of ragged and sparse batches.

They have words `w`, words to predict `t`, texts `s`, vectors `x`, sparse rows `m`, and a number `y` for each example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

ROWS, WORDS, WIDTH = 22, 12, 3
CASES: dict[str, Callable[..., Any]] = {}


def data(batch=6):
    """Examples of 0 to 7 words; the second batch has empty examples only at its end, the last one is smaller."""
    random = np.random.default_rng(5)
    lengths = random.integers(0, 8, ROWS)
    lengths[10:12] = 0
    words = tf.RaggedTensor.from_row_lengths(random.integers(0, WORDS, lengths.sum()), lengths)
    targets = tf.RaggedTensor.from_row_lengths(random.integers(0, WORDS, lengths.sum()), lengths)
    sparse = tf.sparse.from_dense(random.normal(size=(ROWS, WORDS)) * (random.random((ROWS, WORDS)) < 0.3))
    vectors = tf.RaggedTensor.from_row_lengths(random.normal(size=(lengths.sum(), WIDTH)), lengths)
    parts = {
        "w": words,
        "s": tf.strings.as_string(words),
        "m": sparse,
        "x": vectors,
        "t": targets,
        "y": random.normal(size=ROWS),
    }
    return tf.data.Dataset.from_tensor_slices(parts).batch(batch)


def variables():
    random = np.random.default_rng(6)
    shapes = {"e": (WORDS, WIDTH), "k": (WIDTH, 4), "q": (4, WORDS), "h": (WIDTH,)}
    return {name: tf.Variable(0.5 * random.normal(size=shape), name=name) for name, shape in shapes.items()}


def case(loss):
    CASES[loss.__name__] = loss
    return loss


def hashed(texts):
    return tf.strings.to_hash_bucket_fast(texts, WORDS)


def looked_up(v, words):
    return tf.ragged.map_flat_values(lambda flat: tf.gather(v["e"], flat), words)


def squared(v, pooled, y):
    return tf.reduce_mean((tf.linalg.matvec(pooled, v["h"]) - y) ** 2)


@case
def sums(v, w, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, w), 1), y)


@case
def means_of_lengths(v, w, y, **_):
    lengths = tf.cast(tf.maximum(w.row_lengths(), 1), tf.float64)
    return squared(v, tf.reduce_sum(looked_up(v, w), 1) / lengths[:, None], y)


@case
def means_of_what_is_not_empty(v, w, y, **_):
    filled = tf.concat([w, tf.zeros([w.nrows(), 1], w.dtype)], 1)
    return squared(v, tf.reduce_mean(looked_up(v, filled), 1), y)


@case
def largest(v, w, y, **_):
    filled = tf.concat([w, tf.ones([w.nrows(), 1], w.dtype)], 1)
    return squared(v, tf.reduce_max(looked_up(v, filled), 1), y)


@case
def of_all_words(v, w, **_):
    return tf.reduce_mean(tf.gather(v["e"], w.flat_values) ** 2)


@case
def of_all_and_their_number(v, w, **_):
    found = tf.reduce_sum(tf.tanh(looked_up(v, w)).flat_values)
    return found / tf.cast(tf.size(w), tf.float64)


@case
def made_dense(v, w, y, **_):
    dense = w.to_tensor()
    mask = tf.cast(tf.sequence_mask(w.row_lengths(), tf.shape(dense)[1]), tf.float64)
    return squared(v, tf.reduce_sum(tf.gather(v["e"], dense) * mask[..., None], 1), y)


@case
def attention_between_words(v, w, y, **_):
    found = looked_up(v, w).to_tensor()
    mask = tf.sequence_mask(w.row_lengths(), tf.shape(found)[1])
    scores = tf.einsum("bld,bmd->blm", found, found) + tf.where(mask, tf.zeros([], tf.float64), -1e9)[:, None]
    mixed = tf.einsum("blm,bmd->bld", tf.nn.softmax(scores), found) * tf.cast(mask, tf.float64)[..., None]
    return squared(v, tf.reduce_sum(mixed, 1), y)


@case
def words_to_predict(v, w, t, **_):
    logits = tf.tanh(tf.gather(v["e"], w.flat_values) @ v["k"]) @ v["q"]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(t.flat_values, logits))


@case
def words_to_predict_by_example(v, w, t, **_):
    logits = tf.ragged.map_flat_values(lambda flat: tf.tanh(tf.gather(v["e"], flat) @ v["k"]) @ v["q"], w)
    losses = tf.ragged.map_flat_values(tf.nn.sparse_softmax_cross_entropy_with_logits, t, logits)
    return tf.reduce_mean(tf.reduce_sum(losses, 1))


@case
def vectors(v, x, y, **_):
    return squared(v, tf.reduce_sum(x, 1) + v["h"], y)


@case
def vectors_made_dense(v, x, y, **_):
    found = tf.tanh(x.to_tensor() @ v["k"])
    return tf.reduce_mean((tf.reduce_sum(found, [1, 2]) - y) ** 2)


@case
def sparse_rows(v, m, y, **_):
    return squared(v, tf.sparse.sparse_dense_matmul(m, v["e"]), y)


@case
def sparse_rows_and_more(v, m, w, y, **_):
    hidden = tf.tanh(tf.sparse.sparse_dense_matmul(m, v["e"]) + tf.reduce_sum(looked_up(v, w), 1)) @ v["k"]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y > 0, tf.int64), hidden))


@case
def sums_of_sparse_rows(v, m, y, **_):
    return tf.reduce_mean((tf.sparse.reduce_sum(m, 1) * tf.reduce_sum(v["h"]) - y) ** 2)


@case
def sparse_values(v, m, **_):
    return tf.reduce_mean(tf.gather(v["e"], m.indices[:, 1]) * m.values[:, None] * v["h"])


@case
def sparse_rows_made_dense(v, m, y, **_):
    return squared(v, tf.tanh(tf.sparse.to_dense(m) @ v["e"]), y)


@case
def sparse_rows_that_meet(v, m, **_):
    pooled = tf.sparse.sparse_dense_matmul(m, v["e"])
    likeness = tf.matmul(pooled, pooled, transpose_b=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(pooled)[0]), likeness))


@case
def softmax_of_sparse_rows(v, m, y, **_):
    return squared(v, tf.sparse.sparse_dense_matmul(tf.sparse.softmax(m), v["e"]), y)


@case
def sparse_columns(v, m, **_):
    return tf.reduce_sum(tf.tanh(tf.sparse.sparse_dense_matmul(tf.sparse.transpose(m), tf.sparse.to_dense(m) @ v["e"])))


@case
def hashed_texts(v, s, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, tf.ragged.map_flat_values(hashed, s)), 1), y)


@case
def in_batch_negatives(v, w, **_):
    pooled = tf.reduce_sum(looked_up(v, w), 1) @ v["k"]
    likeness = tf.matmul(pooled, pooled, transpose_b=True)
    own = tf.range(tf.shape(pooled)[0])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(own, likeness))


@case
def first_words(v, w, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, w[:, :2]), 1), y)


@case
def last_word(v, w, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, w[:, -1:]), 1), y)


@case
def without_the_first_example(v, w, **_):
    return tf.reduce_sum(tf.tanh(looked_up(v, w[1:])).flat_values)


@case
def neighbours(v, w, **_):
    found = looked_up(v, w)
    return tf.reduce_sum((found[:, 1:] - found[:, :-1]).flat_values ** 2)


@case
def both_texts(v, w, t, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, tf.concat([w, t], 1)), 1), y)


@case
def longer_than_two(v, w, y, **_):
    chosen = w.row_lengths() > 2
    found = tf.reduce_sum(looked_up(v, tf.ragged.boolean_mask(w, chosen)), 1)
    return tf.reduce_sum((tf.linalg.matvec(found, v["h"]) - tf.boolean_mask(y, chosen)) ** 2)


@case
def words_that_are_even(v, w, y, **_):
    return squared(v, tf.reduce_sum(looked_up(v, tf.ragged.boolean_mask(w, w % 2 == 0)), 1), y)


@case
def bags(v, w, y, **_):
    found = tf.nn.embedding_lookup_sparse(v["e"], w.to_sparse(), None, combiner="sum")
    return tf.reduce_sum(tf.tanh(found)) + tf.reduce_mean(y) * tf.reduce_sum(v["h"])


@case
def safe_bags(v, w, y, **_):
    return squared(v, tf.nn.safe_embedding_lookup_sparse(v["e"], w.to_sparse(), combiner="mean"), y)


@case
def counted(v, w, y, **_):
    counts = tf.cast(tf.math.bincount(w.to_tensor(WORDS), axis=-1, minlength=WORDS + 1)[:, :WORDS], tf.float64)
    return squared(v, counts @ v["e"], y)


@case
def by_numbers_of_rows(v, w, y, **_):
    pooled = tf.math.unsorted_segment_sum(tf.gather(v["e"], w.flat_values), w.value_rowids(), w.nrows())
    return squared(v, pooled, y)


@case
def by_ends_of_rows(v, w, **_):
    totals = tf.concat([tf.zeros([1, WIDTH], tf.float64), tf.cumsum(tf.gather(v["e"], w.flat_values))], 0)
    return tf.reduce_sum(tf.tanh(tf.gather(totals, w.row_splits)) ** 2)


@case
def softmax_of_a_text(v, w, y, **_):
    scores = tf.ragged.map_flat_values(lambda flat: tf.exp(tf.linalg.matvec(tf.gather(v["e"], flat), v["h"])), w)
    shares = scores / tf.expand_dims(tf.reduce_sum(scores, 1) + 1e-3, 1)
    return tf.reduce_mean((tf.reduce_sum(shares * shares, 1) - y) ** 2)


@case
def each_text_by_itself(v, w, y, **_):
    found = tf.map_fn(
        lambda text: tf.reduce_sum(tf.tanh(tf.gather(v["e"], text)), 0),
        w,
        fn_output_signature=tf.TensorSpec([WIDTH], tf.float64),
    )
    return squared(v, found, y)


@case
def positions(v, w, y, **_):
    places = tf.ragged.range(w.row_lengths())
    moved = looked_up(v, w) * tf.ragged.map_flat_values(lambda k: tf.sin(tf.cast(k, tf.float64))[:, None], places)
    return squared(v, tf.reduce_sum(moved, 1), y)


@case
def backwards(v, w, y, **_):
    return squared(v, tf.reduce_sum(tf.tanh(tf.math.cumsum(looked_up(v, tf.reverse(w, [1])).to_tensor(), 1)), 1), y)


@case
def the_longest_text(v, w, y, **_):
    longest = tf.cast(tf.reduce_max(w.row_lengths()), tf.float64)
    return squared(v, tf.reduce_sum(looked_up(v, w), 1) / longest, y)


@case
def weighted_by_length(v, w, y, **_):
    weights = tf.cast(w.row_lengths(), tf.float64)
    found = tf.linalg.matvec(tf.reduce_sum(looked_up(v, w), 1), v["h"])
    return tf.reduce_sum(weights * (found - y) ** 2) / tf.reduce_sum(weights)


def program(loss, optimizer="Adam"):
    """Training by a loss."""
    import keras

    given = [name for name in ("w", "s", "t", "x", "m", "y") if name in inspect.signature(loss).parameters]

    def run(scope):
        with scope() as ad:
            known = variables()
            learned = list(known.values())
            steps = getattr(keras.optimizers, optimizer)(0.05)
            steps.build(learned)

            @tf.function
            def step(batch):
                with tf.GradientTape() as tape:
                    value = tf.autograph.experimental.do_not_convert(loss)(known, **batch)
                slopes = tape.gradient(value, learned)
                pairs = zip(learned, slopes, strict=True)
                slopes = [tf.zeros_like(v) if g is None else tf.convert_to_tensor(g) for v, g in pairs]
                steps.apply_gradients(zip(slopes, learned, strict=True))
                return value

            batches = data().map(lambda batch: {name: batch[name] for name in given})
            losses = [float(step(batch)) for batch in (ad.shard(batches) if ad else batches)]
        return [losses, *(v.numpy() for v in learned)]

    return run
