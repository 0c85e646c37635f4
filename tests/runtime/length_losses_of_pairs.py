"""Losses of sequences of any length: of two lengths, pairs of examples, random numbers, loops over time."""

from __future__ import annotations

import tensorflow as tf

from .length_cases import HIDDEN, WIDTH, case, hidden, scores, squared


@case("xz")
def crossed(v, x, z):
    h, g = hidden(v, x), hidden(v, z)
    return squared(tf.einsum("blm,bmd->bld", tf.nn.softmax(tf.einsum("bld,bmd->blm", h, g)), g))


@case("xz")
def concatenated(v, x, z):
    h = hidden(v, tf.concat([x, z], 1))
    return squared(scores(v, h)) + tf.reduce_mean(h) ** 2


@case("xz")
def to_the_longer(v, x, z):
    n = tf.maximum(tf.shape(x)[1], tf.shape(z)[1])
    one, other = (tf.pad(t, [[0, 0], [0, n - tf.shape(t)[1]], [0, 0]]) for t in (x, z))
    h = hidden(v, one + other)
    return squared(scores(v, h)) + tf.reduce_mean(tf.reshape(h, [-1])) ** 2


@case("xz", pairs=[(7, 9), (7, 8), (12, 4), (5, 3), (9, 12), (2, 8), (1, 3), (6, 5), (4, 3)])
def to_the_second(v, x, z):
    return to_the_longer(v, x, z)


@case("xz")
def to_the_shorter(v, x, z):
    n = tf.minimum(tf.shape(x)[1], tf.shape(z)[1])
    h = hidden(v, x[:, :n] * z[:, :n])
    return squared(scores(v, h)) + tf.reduce_mean(tf.reshape(h, [-1])) ** 2


@case("xz")
def all_pairs(v, x, z):
    h, g = hidden(v, x), hidden(v, z)
    return squared(h[:, :, None] - g[:, None])


@case("xz")
def contrasted(v, x, z):
    h, g = tf.reduce_mean(hidden(v, x), 1), tf.reduce_mean(hidden(v, z), 1)
    s = tf.matmul(h, g, transpose_b=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(s)[0]), s))


@case()
def late_interaction(v, x):
    h = hidden(v, x)
    s = tf.reduce_sum(tf.reduce_max(tf.einsum("ald,bmd->ablm", h, h), 3), 2)
    return tf.reduce_mean(tf.nn.log_softmax(s) ** 2)


@case()
def spread(v, x):
    h = hidden(v, x)
    mean, variance = tf.nn.moments(h, [0, 1])
    return squared((h - mean) / tf.sqrt(variance + 0.1) + tf.reduce_max(h))


@case()
def by_time(v, x):
    h = hidden(v, x)
    mean, variance = tf.nn.moments(h, [1], keepdims=True)
    return squared((h - mean) / tf.sqrt(variance + 0.1)) + squared(tf.math.reduce_std(h, 2))


@case()
def normed_by_batch(v, x):
    h = hidden(v, x)
    mean = tf.reduce_mean(h, 0, keepdims=True)
    return squared(scores(v, h / tf.sqrt(tf.reduce_mean((h - mean) ** 2, 0, keepdims=True) + 0.1)))


@case()
def drawn_for_time(v, x):
    noise = tf.random.stateless_normal([tf.shape(x)[1], WIDTH], [1, 2], dtype=x.dtype)
    return squared(scores(v, hidden(v, x + noise)))


@case()
def drawn_for_all(v, x):
    keep = tf.random.stateless_uniform(tf.shape(x), [1, 2], dtype=x.dtype) > 0.3
    return squared(scores(v, hidden(v, tf.where(keep, x, 0))))


@case()
def dropped_out(v, x):
    return squared(scores(v, tf.nn.experimental.stateless_dropout(hidden(v, x), 0.4, [1, 2])))


@case()
def dropped_steps(v, x):
    h = hidden(v, x)
    shape = [tf.shape(x)[0], tf.shape(x)[1], 1]
    return squared(scores(v, tf.nn.experimental.stateless_dropout(h, 0.4, [1, 2], noise_shape=shape)))


@case()
def shuffled_time(v, x):
    order = tf.argsort(tf.random.stateless_uniform([tf.shape(x)[1]], [4, 2]))
    h = tf.gather(hidden(v, x), order, axis=1)
    return squared(tf.cumsum(scores(v, h), axis=1))


@case()
def scanned(v, x):
    h = hidden(v, x)
    start = tf.zeros_like(h[:, 0])
    return squared(tf.scan(lambda a, b: tf.tanh(a @ v["u"] + b), tf.transpose(h, [1, 0, 2]), start))


@case()
def mapped_over_examples(v, x):
    return squared(tf.map_fn(lambda one: tf.reduce_sum(tf.tanh(one @ v["w"]), 0), x))


@case()
def mapped_over_time(v, x):
    return squared(tf.map_fn(lambda one: tf.tanh(one @ v["w"]), tf.transpose(x, [1, 0, 2])))


@case()
def vectorized_over_examples(v, x):
    return squared(tf.vectorized_map(lambda one: tf.reduce_max(tf.tanh(one @ v["w"]), 0), x))


def looped(v, x, *, dynamic):
    h = tf.transpose(hidden(v, x), [1, 0, 2])
    n = tf.shape(h)[0]
    made = tf.TensorArray(h.dtype, 0 if dynamic else n, dynamic_size=dynamic, element_shape=[None, HIDDEN])

    def turn(t, state, made):
        state = tf.tanh(state @ v["u"] + h[t])
        return t + 1, state, made.write(t, state)

    _, state, made = tf.while_loop(lambda t, *_: t < n, turn, [0, tf.zeros_like(h[0]), made])
    return squared(made.stack()) + squared(state)


@case()
def looped_over_time(v, x):
    return looped(v, x, dynamic=False)


@case()
def grown_over_time(v, x):
    return looped(v, x, dynamic=True)


@case()
def stopped_early(v, x):
    h = hidden(v, x)
    n = tf.shape(x)[1]

    def turn(t, total):
        return t + 2, total + h[:, t] * tf.cast(n - t, h.dtype)

    return squared(tf.while_loop(lambda t, _: t < n, turn, [0, tf.zeros_like(h[:, 0])])[1])


@case("xz")
def one_loop_for_both(v, x, z):
    @tf.function(input_signature=[tf.TensorSpec([None, None, HIDDEN], x.dtype)])
    def turned(h):
        def turn(k, total):
            return k + 1, tf.tanh(total - tf.reduce_mean(total, 1, keepdims=True) + h)

        return tf.while_loop(lambda k, _: k < 3, turn, [0, tf.zeros_like(h)])[1]

    return squared(turned(hidden(v, x))) + squared(turned(hidden(v, z)))
