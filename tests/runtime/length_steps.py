"""Small losses of batches whose lengths differ, written by hand: each is a training step with a signature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

WIDTH, HIDDEN, WORDS = 5, 4, 30
SIZES = [(12, 7), (12, 4), (12, 12), (8, 5), (12, 9), (7, 2), (12, 1), (5, 6), (1, 4), (12, 16), (12, 3), (2, 8)]
"""Rows and lengths of batches; some lengths are those of other dims, some batches are smaller than the rest."""
PAIRS = [(7, 4), (5, 9), (6, 6), (4, 7), (3, 8), (9, 2), (2, 3), (12, 5), (5, 12), (1, 4), (8, 8), (16, 10)]
"""Two lengths of the same batches."""


@dataclass(frozen=True)
class Case:
    """A loss, and what it is given.

    Attributes:
        loss: Of the variables by name, and of the arrays of a batch.
        given: What a batch has: "x" for vectors, "i" for words, "z" for vectors of another length, "m" for images,
            "y" for a number per example, "n" for the lengths without padding.
        sizes: Rows and lengths of the batches; by default those of all.
        loses: The optimizer.
    """

    loss: Callable[..., Any]
    given: str
    sizes: Sequence[tuple[int, int]] = tuple(SIZES)
    optimizer: str = "SGD"
    pairs: Sequence[tuple[int, int]] = tuple(PAIRS)


CASES: dict[str, Case] = {}


def case(given: str = "x", **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(loss: Callable[..., Any]) -> Callable[..., Any]:
        CASES[loss.__name__] = Case(loss, given, **options)
        return loss

    return add


SPECS = {
    "x": tf.TensorSpec([None, None, WIDTH], tf.float64),
    "z": tf.TensorSpec([None, None, WIDTH], tf.float64),
    "i": tf.TensorSpec([None, None], tf.int64),
    "m": tf.TensorSpec([None, None, None, 3], tf.float64),
    "y": tf.TensorSpec([None], tf.float64),
    "n": tf.TensorSpec([None], tf.int64),
}


def batches(one: Case) -> list[list[np.ndarray]]:
    random = np.random.default_rng(3)
    found = []
    for (rows, length), (_, other) in zip(one.sizes, itertools.cycle(one.pairs), strict=False):
        made = {
            "x": random.normal(size=(rows, length, WIDTH)),
            "z": random.normal(size=(rows, other, WIDTH)),
            "i": random.integers(1, WORDS, (rows, length)),
            "m": random.normal(size=(rows, length + 3, other + 3, 3)),
            "y": random.normal(size=rows),
            "n": random.integers(1, length + 1, rows),
        }
        found.append([made[what] for what in one.given])
    return found


def variables() -> dict[str, tf.Variable]:
    random = np.random.default_rng(4)
    shapes = {
        "w": (WIDTH, HIDDEN), "u": (HIDDEN, HIDDEN), "v": (HIDDEN,), "e": (WORDS, WIDTH), "p": (40, WIDTH),
        "q": (WIDTH, WIDTH), "k": (3, WIDTH, HIDDEN), "f": (3, 3, 3, HIDDEN), "c": (3, HIDDEN, WIDTH),
    }  # fmt: skip
    return {name: tf.Variable(random.normal(size=shape) * 0.4, name=name) for name, shape in shapes.items()}


def program(one: Case) -> Callable[[Any], tuple[list[Any], Any]]:
    import keras

    def run(scope: Any) -> tuple[list[Any], Any]:
        with scope() as ad:
            known = variables()
            learned = list(known.values())
            optimizer = getattr(keras.optimizers, one.optimizer)(0.05)
            optimizer.build(learned)

            @tf.function(input_signature=[SPECS[what] for what in one.given])
            def step(*given):
                with tf.GradientTape() as tape:
                    loss = tf.autograph.experimental.do_not_convert(one.loss)(known, *given)
                slopes = tape.gradient(loss, learned)
                slopes = [tf.zeros_like(v) if g is None else tf.convert_to_tensor(g) for v, g in zip(learned, slopes)]
                optimizer.apply_gradients(zip(slopes, learned, strict=True))
                return loss

            losses = [float(step(*map(tf.constant, batch))) for batch in batches(one)]
            return [losses, *(v.numpy() for v in learned)], ad and len(ad.strategies)

    return run


def hidden(v, x):
    return tf.tanh(tf.tensordot(x, v["w"], 1))


def squared(found, y=0.3):
    return tf.reduce_mean(tf.square(found - y))


def scores(v, h):
    return tf.tensordot(h, v["v"], 1)


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


@case(optimizer="Adam")
def sloped(v, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        s = tf.reduce_sum(scores(v, hidden(v, x)))
    return squared(tape.gradient(s, x)) + 1e-3 * s


@case("i", optimizer="Adagrad")
def tied(v, i):
    h = tf.gather(v["e"], i)
    s = tf.tensordot(tf.tanh(tf.tensordot(h, v["q"], 1)), v["e"], [[2], [1]])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(i[:, ::-1], s))


@case("i", optimizer="Adam")
def shifted(v, i):
    h = tf.tensordot(tf.tanh(tf.tensordot(tf.gather(v["e"], i[:, :-1]), v["q"], 1)), v["e"], [[2], [1]])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(i[:, 1:], h)
    return tf.reduce_sum(loss) / (tf.cast(tf.size(loss), loss.dtype) + 1e-3)


@case("i")
def looked_up_in_a_loop(v, i):
    def turn(state, words):
        return tf.tanh(tf.tensordot(state + tf.gather(v["e"], words), v["q"], 1))

    return squared(tf.scan(turn, tf.transpose(i), tf.zeros([tf.shape(i)[0], WIDTH], tf.float64)))


@case("i")
def looked_up_again_and_again(v, i):
    def turn(t, total):
        return t + 1, tf.tanh(tf.gather(v["e"], i + t) + 0.5 * total)

    start = 0, tf.zeros([*tf.unstack(tf.shape(i)), WIDTH], tf.float64)
    i = tf.minimum(i, WORDS - 4)
    return squared(tf.while_loop(lambda t, _: t < 3, turn, start)[1])


@case("i")
def counted(v, i):
    counts = tf.reduce_sum(tf.one_hot(i, WORDS, dtype=tf.float64), 1)
    return squared(counts @ v["e"])


@case("i")
def ragged_inside(v, i):
    ragged = tf.RaggedTensor.from_tensor(i, padding=7)
    return squared(tf.gather(v["e"], ragged.to_tensor()))


@case("i")
def summed_by_word(v, i):
    flat = tf.reshape(i, [-1])
    return squared(tf.math.unsorted_segment_sum(tf.tanh(tf.gather(v["e"], flat)), flat % 4, 4))


@case("i")
def unique_words(v, i):
    words, places = tf.unique(tf.reshape(i, [-1]))
    return squared(tf.gather(tf.tanh(tf.gather(v["e"], words)), places))


@case("m")
def pictures(v, m):
    h = tf.nn.relu(tf.nn.conv2d(m, v["f"], 1, "SAME"))
    h = tf.nn.max_pool2d(h, 2, 2, "VALID")
    return squared(scores(v, h)) + tf.reduce_mean(h) ** 2


@case("m")
def resized(v, m):
    m = tf.image.resize(m, [8, 8])
    return squared(scores(v, tf.cast(tf.nn.conv2d(tf.cast(m, tf.float64), v["f"], 2, "SAME"), tf.float64)))


@case("m")
def grown_pictures(v, m):
    h = tf.nn.conv2d(m, v["f"], 2, "SAME")
    g = tf.image.resize(h, tf.shape(m)[1:3], "nearest")
    return squared(scores(v, g)) + tf.reduce_mean(g) ** 2


@case("m")
def patches(v, m):
    found = tf.image.extract_patches(m, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    kernel = tf.reshape(v["f"], [-1, HIDDEN])[:12]
    return squared(tf.tensordot(found, kernel, 1))


@case("m")
def pixels_as_sequence(v, m):
    h = tf.nn.conv2d(m, v["f"], 1, "SAME")
    h = tf.reshape(h, [tf.shape(h)[0], -1, HIDDEN])
    return squared(tf.matmul(tf.nn.softmax(tf.matmul(h, h, transpose_b=True)), h))


@case("m")
def turned_pictures(v, m):
    h = tf.nn.conv2d(tf.transpose(m, [0, 2, 1, 3]), v["f"], 1, "SAME")
    return squared(tf.reduce_max(h, 1)) + squared(tf.reduce_sum(h, [1, 2]))


@case("m")
def space_to_depth(v, m):
    height, width = tf.shape(m)[1] // 2 * 2, tf.shape(m)[2] // 2 * 2
    h = tf.nn.space_to_depth(tf.nn.conv2d(m, v["f"], 1, "SAME")[:, :height, :width], 2)
    return squared(h) + tf.reduce_mean(tf.reshape(h, [-1])) ** 2


@case()
def first_rows(v, x):
    return squared(scores(v, hidden(v, x[:9])))


@case()
def few_rows(v, x):
    n = tf.minimum(tf.shape(x)[0], 10)
    return squared(scores(v, hidden(v, x[:n]))) + squared(hidden(v, x))


@case("xy")
def hardest(v, x, y):
    losses = tf.reduce_mean(tf.square(scores(v, hidden(v, x)) - y[:, None]), 1)
    return tf.reduce_mean(tf.math.top_k(losses, k=tf.minimum(4, tf.shape(losses)[0]))[0])


@case("xy")
def hardest_tokens(v, x, y):
    losses = tf.reshape(tf.square(scores(v, hidden(v, x)) - y[:, None]), [-1])
    return tf.reduce_mean(tf.math.top_k(losses, k=tf.size(losses) // 3 + 1)[0])


@case("xy")
def weighted_by_length(v, x, y):
    n = tf.cast(tf.shape(x)[1], x.dtype)
    return tf.reduce_sum(tf.square(scores(v, hidden(v, x)) - y[:, None]) * n**0.5) / (n * tf.cast(len(x), n.dtype))


@case()
def penalized(v, x):
    n = tf.cast(tf.shape(x)[1], x.dtype)
    return squared(scores(v, hidden(v, x))) + n * tf.nn.l2_loss(v["w"]) / 100 + tf.reduce_sum(v["v"]) / n


@case()
def rolled(v, x):
    return squared(scores(v, hidden(v, tf.roll(x, 1, 1) + tf.roll(x, tf.shape(x)[1] // 2, 1))))


@case()
def rolled_rows(v, x):
    return squared(scores(v, hidden(v, tf.roll(x, 1, 0) * x)))


@case()
def tiled(v, x):
    h = tf.tile(tf.reduce_mean(hidden(v, x), 1, keepdims=True), [1, tf.shape(x)[1], 1])
    return squared(scores(v, hidden(v, x) - h)) + tf.reduce_mean(h) ** 2


@case()
def in_order(v, x):
    h = tf.transpose(hidden(v, x), [1, 0, 2])
    flat = tf.reshape(h, [-1, HIDDEN])
    return squared(tf.cumsum(tf.reshape(flat, [tf.shape(x)[1], -1]), 0))


@case()
def joined_with_width(v, x):
    flat = tf.reshape(x, [tf.shape(x)[0], -1])
    return squared(tf.math.l2_normalize(flat, 1)[:, :WIDTH] @ v["w"])


@case()
def gram(v, x):
    h = hidden(v, x)
    return squared(tf.einsum("bld,ble->de", h, h)) + squared(tf.einsum("bld,bmd->lm", h, h))


@case()
def variance_of_examples(v, x):
    return tf.math.reduce_variance(tf.reduce_sum(hidden(v, x), 1)) + tf.math.reduce_std(scores(v, hidden(v, x)))


@case()
def fourier(v, x):
    h = tf.signal.rfft(tf.cast(tf.transpose(hidden(v, x), [0, 2, 1]), tf.float32))
    return tf.cast(tf.reduce_mean(tf.abs(h) ** 2), tf.float64)


@case()
def framed(v, x):
    return squared(tf.signal.frame(scores(v, hidden(v, x)), 3, 2, pad_end=True))
