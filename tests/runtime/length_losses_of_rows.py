"""Losses of batches of any length: of words, images, and few rows."""

from __future__ import annotations

import tensorflow as tf

from .length_cases import HIDDEN, WIDTH, WORDS, case, hidden, scores, squared


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
        return t + 1, tf.tanh(tf.gather(v["e"], i + tf.cast(t, tf.int64)) + 0.5 * total)

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
    return squared(tf.reduce_max(h, 1)) + squared(tf.sin(tf.reduce_mean(h, [1, 2])))


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
def sum_of_hardest(v, x, y):
    losses = tf.reduce_mean(tf.square(scores(v, hidden(v, x)) - y[:, None]), 1)
    return tf.reduce_sum(tf.math.top_k(losses, k=tf.minimum(4, tf.shape(losses)[0]))[0]) / 4


@case("xy")
def rows_by_numbers(v, x, y):
    n = tf.minimum(tf.shape(x)[0], 10)
    return squared(tf.reduce_sum(tf.gather(scores(v, hidden(v, x)), tf.range(n)), 1), tf.gather(y, tf.range(n)))


@case()
def at_most_rows(v, x):
    n = tf.cast(tf.minimum(tf.shape(x)[0], 10), x.dtype)
    return tf.reduce_sum(tf.square(scores(v, hidden(v, x)))) / n / 10


@case()
def rows_and_lengths(v, x):
    n = tf.cast(tf.shape(x)[0] * tf.shape(x)[1] + tf.shape(x)[1], x.dtype)
    return tf.reduce_sum(tf.square(scores(v, hidden(v, x)))) / n


@case()
def square_of_all(v, x):
    h = tf.reshape(hidden(v, x), [-1, HIDDEN])
    s = tf.nn.log_softmax(tf.matmul(h, h, transpose_b=True))
    return tf.reduce_mean(tf.linalg.diag_part(s) ** 2)


@case("xn")
def packed_tokens(v, x, n):
    h = tf.gather_nd(hidden(v, x), tf.where(tf.sequence_mask(n, tf.shape(x)[1])))
    return squared(h - tf.reduce_mean(h, 0, keepdims=True))


@case("xz", pairs=[(7, 9), (7, 8), (12, 4), (5, 3), (9, 12), (2, 8), (1, 3), (6, 5), (4, 3)])
def cropped_to_the_second(v, x, z):
    n = tf.minimum(tf.shape(x)[1], tf.shape(z)[1])
    return tf.reduce_mean(tf.nn.softmax(tf.reshape(scores(v, hidden(v, x[:, :n] * z[:, :n])), [-1])) ** 2)


@case(sizes=[(12, 15), (12, 8), (8, 5), (12, 10), (7, 7), (5, 6), (1, 9), (12, 12)])
def mean_of_even_rest(v, x):
    n = (tf.shape(x)[1] - 2) // 2 * 2
    return tf.reduce_mean(hidden(v, x[:, 2 : n + 2])) ** 2


@case()
def rows_in_python(v, x):
    rows = x.shape[0] or tf.shape(x)[0]
    return tf.reduce_sum(tf.reshape(scores(v, hidden(v, x)), [rows, -1]) ** 2) / tf.cast(rows, x.dtype)


@case()
def drawn_in_function(v, x):
    noise = tf.map_fn(lambda t: tf.cast(t, x.dtype) * x[:, t], tf.range(tf.shape(x)[1]), fn_output_signature=x.dtype)
    return squared(scores(v, hidden(v, noise)))


@case("d")
def twelve(v, d):
    return tf.reduce_sum(tf.reshape(scores(v, hidden(v, d)), [d.shape[0], -1]) ** 2) / d.shape[0]


@case("d")
def one_by_one(v, d):
    return tf.add_n([squared(hidden(v, d[k]), k) for k in range(d.shape[0])])


@case("d")
def in_pairs(v, d):
    h = tf.reshape(hidden(v, d), [d.shape[0] // 2, 2, -1])
    return (
        squared(h[:, 0] - h[:, 1]) + squared(tf.reduce_sum(h, [1, 2]) @ tf.ones([6, 1], h.dtype)[:, 0:1])
        if False
        else squared(h[:, 0] - h[:, 1])
    )


@case(sizes=[(12, 15), (12, 8), (8, 5), (12, 10), (7, 7), (5, 6), (1, 9), (12, 12)])
def part_of_time(v, x):
    n = (tf.shape(x)[1] - 2) // 2 * 2
    return tf.reduce_mean(tf.tanh(x[:, 2 : n + 2] * v["w"][:, 0])) ** 2


@case("xy")
def hardest_tokens(v, x, y):
    losses = tf.reshape(tf.square(scores(v, hidden(v, x)) - y[:, None]), [-1])
    return tf.reduce_mean(tf.math.top_k(losses, k=tf.size(losses) // 3 + 1)[0])


@case("xy")
def weighted_by_length(v, x, y):
    n = tf.cast(tf.shape(x)[1], x.dtype)
    return tf.reduce_sum(tf.square(scores(v, hidden(v, x)) - y[:, None]) * n**0.5) / (
        n * tf.cast(tf.shape(x)[0], n.dtype)
    )


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
    h = hidden(v, x) / 8  # the sine of large numbers would turn round-off into other weights, on one device too
    return squared(tf.sin(tf.einsum("bld,ble->de", h, h))) + squared(tf.tanh(tf.einsum("bld,bmd->lm", h, h)))


@case()
def variance_of_examples(v, x):
    return tf.math.reduce_variance(tf.reduce_sum(hidden(v, x), 1)) + tf.math.reduce_std(scores(v, hidden(v, x)))


@case()
def fourier(v, x):
    h = tf.signal.fft(tf.cast(tf.transpose(hidden(v, x), [0, 2, 1]), tf.complex128))
    return tf.reduce_mean(tf.sin(tf.abs(h)))


@case()
def framed(v, x):
    return squared(tf.signal.frame(scores(v, hidden(v, x)), 3, 2, pad_end=True))


def by_height(m):
    return tf.transpose(m, [1, 0, 2, 3])


@case("m")
def mapped_over_height(v, m):
    return squared(tf.map_fn(lambda one: tf.tanh(tf.tensordot(one, v["w"][:3], 1)), by_height(m)))


@case("m")
def averaged_by_height(v, m):
    def turn(one):
        h = tf.tanh(tf.tensordot(one, v["w"][:3], 1))
        return h - tf.reduce_mean(h, 1, keepdims=True)

    return squared(tf.map_fn(turn, by_height(m)))


@case("m")
def scanned_over_height(v, m):
    def turn(state, one):
        h = tf.tanh(tf.tensordot(one, v["w"][:3], 1) + state)
        return tf.matmul(tf.nn.softmax(tf.matmul(h, h, transpose_b=True)), h)

    start = tf.zeros([tf.shape(m)[0], tf.shape(m)[2], 4], m.dtype)
    return squared(tf.scan(turn, by_height(m), start))


@case("m")
def mapped_over_pictures(v, m):
    def turn(one):
        h = tf.tanh(tf.tensordot(one, v["w"][:3], 1))
        return tf.reduce_max(h, 0) - tf.reduce_mean(h, [0, 1])

    signature = tf.TensorSpec([None, 4], m.dtype)
    return squared(tf.map_fn(turn, m, fn_output_signature=signature))


@case("xz")
def stepped_with_memory(v, x, z):
    memory = tf.tanh(tf.tensordot(z, v["w"], 1))

    def turn(state, one):
        weights = tf.nn.softmax(tf.einsum("bd,bmd->bm", state, memory))
        return tf.tanh(one + tf.einsum("bm,bmd->bd", weights, memory))

    h = tf.transpose(tf.tensordot(x, v["w"], 1), [1, 0, 2])
    return squared(tf.scan(turn, h, tf.zeros_like(h[0])))


@case("xz")
def pairs_in_a_loop(v, x, z):
    memory = tf.tanh(tf.tensordot(z, v["w"], 1))

    def turn(t, total):
        now = tf.tanh(tf.tensordot(x[:, t], v["w"], 1))
        return t + 1, total + tf.reduce_mean(tf.square(now[:, None] - memory), [0, 1])

    total = tf.while_loop(lambda t, _: t < tf.shape(x)[1], turn, [0, tf.zeros([4], x.dtype)])[1]
    return tf.reduce_sum(tf.sin(total)) / tf.cast(tf.shape(x)[1], x.dtype)


@case("m")
def averages_over_height(v, m):
    def turn(state, one):
        h = tf.tanh(tf.tensordot(one, v["w"][:3], 1) + state)
        return h - tf.reduce_mean(h, 1, keepdims=True) + tf.math.reduce_std(h, 1, keepdims=True)

    start = tf.zeros([tf.shape(m)[0], tf.shape(m)[2], 4], m.dtype)
    return squared(tf.scan(turn, by_height(m), start)[-1])
