"""Losses of sequences of any length: of their parts, blocks, tokens and positions."""

from __future__ import annotations

import tensorflow as tf

from .length_cases import HIDDEN, WIDTH, case, hidden, scores, squared


@case()
def crop(v, x):
    return squared(scores(v, hidden(v, x[:, :6])))


@case()
def pad_to_fixed(v, x):
    length = tf.shape(x)[1]
    padded = tf.pad(x, [[0, 0], [0, 20 - length], [0, 0]])
    return squared(tf.reshape(padded, [-1, 20 * WIDTH]) @ tf.tile(v["w"], [20, 1]))


@case()
def pad_by_one(v, x):
    return squared(scores(v, hidden(v, tf.pad(x, [[0, 0], [1, 2], [0, 0]], constant_values=0.5))))


@case()
def branch(v, x):
    h = hidden(v, x)
    return squared(tf.cond(tf.shape(x)[1] > 5, lambda: tf.reduce_sum(h, 1), lambda: tf.reduce_max(h, 1)) @ v["u"])


@case()
def branch_on_rows(v, x):
    h = hidden(v, x)
    more = tf.shape(x)[0] > tf.shape(x)[1]
    return squared(tf.where(more, tf.reduce_sum(h, 1), 2 * tf.reduce_max(h, 1)) @ v["u"])


@case()
def at_most(v, x):
    h = hidden(v, x)
    n = tf.minimum(tf.shape(x)[1], 6)
    return squared(scores(v, tf.reduce_sum(h[:, :n], 1) / tf.cast(n, h.dtype)))


@case()
def at_least(v, x):
    n = tf.maximum(tf.shape(x)[1], 8)
    return squared(scores(v, hidden(v, tf.pad(x, [[0, 0], [0, n - tf.shape(x)[1]], [0, 0]]))))


@case()
def by_length(v, x):
    return squared(scores(v, tf.reduce_sum(hidden(v, x), 1) / tf.cast(tf.shape(x)[1], x.dtype)))


@case()
def strides(v, x):
    return squared(scores(v, tf.reduce_sum(hidden(v, x[:, ::2]), 1))) + squared(hidden(v, x[:, ::-1][:, ::3]))


@case()
def pools(v, x):
    h = tf.nn.max_pool1d(hidden(v, x), 2, 2, "SAME")
    return squared(scores(v, tf.nn.avg_pool1d(h, 3, 2, "SAME")))


@case(sizes=[(12, 7), (12, 4), (8, 5), (12, 10), (7, 2), (5, 6), (1, 9)])
def pooled_and_back(v, x):
    h = tf.repeat(tf.nn.max_pool1d(hidden(v, x), 2, 2, "VALID"), 2, axis=1)
    return squared(scores(v, h)) + tf.reduce_mean(h) * tf.reduce_mean(h)


@case(sizes=[(12, 7), (12, 4), (8, 5), (12, 10), (7, 2), (5, 6), (1, 9)])
def even_part(v, x):
    n = tf.shape(x)[1] // 2 * 2
    h = tf.reshape(hidden(v, x[:, :n]), [tf.shape(x)[0], n // 2, 2 * HIDDEN])
    return squared(h) + tf.reduce_mean(tf.reshape(h, [-1])) ** 2


@case(sizes=[(12, 15), (12, 8), (8, 5), (12, 10), (7, 7), (5, 6), (1, 9), (12, 12)])
def even_rest(v, x):
    n = (tf.shape(x)[1] - 2) // 2 * 2
    h = tf.reshape(x[:, 2 : n + 2], [-1, WIDTH]) @ v["w"]
    return squared(tf.tanh(h)) + tf.reduce_mean(h) ** 2


@case()
def in_blocks(v, x):
    length = tf.shape(x)[1]
    blocks = -(-length // 4)
    padded = tf.pad(x, [[0, 0], [0, blocks * 4 - length], [0, 0]])
    return squared(tf.tanh(tf.reshape(padded, [-1, 4 * WIDTH]) @ tf.tile(v["w"], [4, 1])))


@case(sizes=[(12, 7), (12, 4), (8, 5), (12, 10), (7, 3), (5, 6), (1, 9)])
def thirds(v, x):
    n = tf.shape(x)[1] // 3 * 3
    return tf.reduce_mean(tf.reshape(hidden(v, x[:, :n]), [-1])) ** 2 + squared(hidden(v, x[:, :n]))


@case()
def convolution(v, x):
    return squared(scores(v, tf.nn.conv1d(x, v["k"], 1, "SAME")))


@case()
def strided_convolution(v, x):
    return squared(scores(v, tf.nn.conv1d(x, v["k"], 2, "SAME")))


@case()
def transposed_convolution(v, x):
    shape = [tf.shape(x)[0], tf.shape(x)[1] * 2, WIDTH]
    return squared(tf.nn.conv1d_transpose(hidden(v, x), tf.transpose(v["c"], [0, 2, 1]), shape, 2, "SAME"))


@case()
def flattened(v, x):
    flat = tf.reshape(x, [-1, WIDTH]) @ v["w"]
    return squared(tf.reshape(flat, [tf.shape(x)[0], -1]))


@case()
def all_tokens(v, x):
    flat = tf.nn.log_softmax(tf.reshape(x, [-1, WIDTH]) @ v["w"])
    return -tf.reduce_sum(flat[:, 0]) / tf.cast(tf.size(x), x.dtype)


@case()
def softmax_over_all(v, x):
    flat = tf.reshape(scores(v, hidden(v, x)), [-1])
    return tf.reduce_sum(tf.nn.softmax(flat) * flat)


@case("xy")
def sorted_over_time(v, x, y):
    s = tf.sort(scores(v, hidden(v, x)), axis=1, direction="DESCENDING")
    return squared(s[:, 0], y) + squared(tf.reduce_mean(tf.sin(tf.cumsum(s, axis=1)), 1), y)


@case()
def best_of_time(v, x):
    return squared(tf.math.top_k(scores(v, hidden(v, x)), k=1)[0])


@case()
def best_half(v, x):
    return squared(tf.math.top_k(scores(v, hidden(v, x)), k=(tf.shape(x)[1] + 1) // 2)[0])


@case()
def ranked_over_time(v, x):
    s = scores(v, hidden(v, x))
    order = tf.argsort(s, axis=1)
    return squared(tf.gather(s, order, batch_dims=1) * tf.cast(tf.range(tf.shape(x)[1]), s.dtype))


@case("xi")
def picked_tokens(v, x, i):
    return squared(tf.boolean_mask(scores(v, hidden(v, x)), i > 10))


@case("xn")
def last_token(v, x, n):
    return squared(tf.gather(scores(v, hidden(v, x)), n - 1, batch_dims=1))


@case("xn")
def reversed_parts(v, x, n):
    h = tf.reverse_sequence(hidden(v, x), n, seq_axis=1, batch_axis=0)
    return squared(tf.cumsum(scores(v, h), axis=1))


@case("xn")
def masked_mean(v, x, n):
    mask = tf.sequence_mask(n, tf.shape(x)[1], x.dtype)
    return tf.reduce_sum(tf.square(scores(v, hidden(v, x))) * mask) / tf.reduce_sum(mask)


@case("xn")
def masked_to_longest(v, x, n):
    mask = tf.sequence_mask(n, dtype=x.dtype)
    h = scores(v, hidden(v, x))[:, : tf.shape(mask)[1]]
    return tf.reduce_sum(tf.square(h) * mask) / tf.reduce_sum(mask)


@case()
def band(v, x):
    h = hidden(v, x)
    s = tf.linalg.band_part(tf.matmul(h, h, transpose_b=True), -1, 0)
    return squared(tf.matmul(tf.nn.softmax(s), h))


@case()
def relative_positions(v, x):
    h, places = hidden(v, x), tf.range(tf.shape(x)[1])
    bias = tf.gather(tf.reshape(v["p"], [-1]), places[:, None] - places[None] + 50)
    return squared(tf.matmul(tf.nn.softmax(tf.einsum("bld,bmd->blm", h, h) + bias), h))


@case()
def learned_positions(v, x):
    return squared(scores(v, hidden(v, x + v["p"][: tf.shape(x)[1]])))


@case()
def looked_up_positions(v, x):
    return squared(scores(v, hidden(v, x + tf.gather(v["p"], tf.range(tf.shape(x)[1])))))


@case()
def waves(v, x):
    t = tf.cast(tf.range(tf.shape(x)[1]), x.dtype)[:, None] * tf.range(1.0, WIDTH + 1.0, dtype=x.dtype)
    return squared(scores(v, hidden(v, x + tf.sin(t))))


@case()
def heads(v, x):
    rows, length = tf.shape(x)[0], tf.shape(x)[1]
    h = tf.transpose(tf.reshape(hidden(v, x), [rows, length, 2, 2]), [0, 2, 1, 3])
    a = tf.nn.softmax(tf.einsum("bhld,bhmd->bhlm", h, h) / 1.4)
    mixed = tf.reshape(tf.transpose(tf.einsum("bhlm,bhmd->bhld", a, h), [0, 2, 1, 3]), [rows, length, HIDDEN])
    return squared(tf.tensordot(mixed, v["u"], 1))
