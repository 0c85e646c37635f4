"""What operators do with the batch: which functions of it keep examples apart, and which do not."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import StepAnalysis, VariableNames, capture, node_of

W = tf.Variable([[1.0, 2.0], [0.5, -1.0]], name="w")


def size(x):
    return tf.shape(x)[0]


def positive(x):
    return tf.cast(x[:, 0] > 0, tf.int32)


@tf.custom_gradient
def quantized(x):
    return tf.round(4.0 * x) / 4.0, lambda upstream: upstream


APART = {
    "centred by the sign of data": lambda x: x - tf.reduce_mean(tf.grad_pass_through(tf.sign)(x), 0),
    "quantized by a given range": lambda x: tf.quantization.quantize_and_dequantize_v2(x, -4.0, 4.0, range_given=True),
    "square": tf.square,
    "dense": lambda x: x @ W,
    "softmax": tf.nn.softmax,
    "flat": lambda x: tf.reshape(tf.reshape(x, [-1]) * 2.0, [-1, 2]),
    "halves": lambda x: tf.add(*tf.split(tf.concat([x, 2.0 * x], 0), 2)),
    "halves by size": lambda x: (lambda both: both[: size(x)] - both[size(x) :])(tf.concat([x, 2.0 * x], 0)),
    "time first": lambda x: tf.transpose(tf.transpose(x[:, :, None], [1, 0, 2]) * [2.0], [1, 0, 2])[:, :, 0],
    "sorted columns": lambda x: tf.sort(x, axis=1),
    "cumulated columns": lambda x: tf.cumsum(x, axis=1),
    "reversed columns": lambda x: tf.reverse(x, [1]),
    "own column": lambda x: tf.gather_nd(x, tf.stack([tf.range(size(x)), positive(x)], 1)),
    "own column of flat": lambda x: tf.gather(tf.reshape(x, [-1]), tf.range(size(x)) * 2 + positive(x)),
    "columns of flat": lambda x: tf.gather(tf.reshape(x, [-1]), tf.range(size(x)) * 2 + 1),
    "batch dims before a dim of the batch": lambda x: tf.gather(
        tf.transpose(tf.stack([x @ W, x, 2.0 * x], 0), [0, 2, 1]), tf.constant([[0], [1], [1]]), axis=1, batch_dims=1
    ),
    "batch dims": lambda x: tf.gather(x, positive(x)[:, None], batch_dims=1),
    "table": lambda x: tf.gather(W, positive(x)),
    "outer product": lambda x: tf.einsum("bi,bj->bij", x, x),
    "row products": lambda x: tf.matmul(x[:, :, None], x[:, None]),
    "one hot": lambda x: tf.one_hot(positive(x), 3),
    "tensordot": lambda x: tf.tensordot(x[:, None, :], W, [[2], [0]]),
    "map": lambda x: tf.map_fn(lambda row: tf.reduce_sum(tf.square(row)), x),
    "vectorized map": lambda x: tf.vectorized_map(lambda row: tf.reduce_sum(tf.square(row)) * row[0], x),
    "vectorized map of both": lambda x: tf.vectorized_map(
        lambda rows: tf.where(rows[0] > 0, rows[0], 0.1 * rows[0]) / tf.norm(rows[1]), (x, x @ W)
    ),
    "vectorized map by number": lambda x: tf.vectorized_map(
        lambda k: tf.reduce_sum(tf.gather(x, k)), tf.range(size(x))
    ),
    "sorted by a vectorized map": lambda x: tf.vectorized_map(
        lambda row: tf.sort(tf.reshape(row[:, None] * row[None], [-1]))[:3], x
    ),
    "scan over columns": lambda x: tf.scan(lambda a, e: a * e, tf.transpose(x)),
    "loop": lambda x: tf.while_loop(lambda k, a: k < 3, lambda k, a: (k + 1, a * x), [0, x])[1],
    "choice": lambda x: tf.cond(tf.reduce_mean(x) > 0, lambda: x, lambda: 2.0 * x),
    "centred by the mean of data": lambda x: x - tf.reduce_mean(x, 0),
    "scaled by the maximum of data": lambda x: x / tf.reduce_max(tf.abs(x)),
    "mask": lambda x: tf.boolean_mask(x, x[:, 0] > 0),
    "a mask written twice": lambda x: tf.boolean_mask(x, x[:, 0] > 0) - tf.boolean_mask(x @ W, x[:, 0] > 0),
    "a mask of a mask": lambda x: (lambda a: tf.boolean_mask(a, a[:, 1] > 0))(tf.boolean_mask(x, x[:, 0] > -1)),
    "noise for what a mask leaves": lambda x: tf.nn.dropout(tf.boolean_mask(x, x[:, 0] > 0), 0.5, seed=1),
    "parts joined in one order": lambda x: tf.subtract(
        *(tf.concat(tf.dynamic_partition(y, positive(x), 2), 0) for y in (x, x @ W))
    ),
    "as many rows as a mask leaves": lambda x: tf.zeros_like(tf.boolean_mask(x, x[:, 0] > 0)) + tf.fill(
        [size(tf.boolean_mask(x, x[:, 0] > 0)), 2], 0.5
    ),
    "mask of elements": lambda x: tf.boolean_mask(x, x > 0),
    "rows by number": lambda x: tf.gather(x, tf.where(x[:, 0] > 0)[:, 0]),
    "rows changed by what they have": lambda x: tf.tensor_scatter_nd_update(
        x, tf.where(x[:, 0] > 0), tf.boolean_mask(2.0 * x, x[:, 0] > 0)
    ),
    "rows changed alike": lambda x: tf.tensor_scatter_nd_add(
        x, tf.stack([tf.range(size(x)), positive(x)], 1), tf.fill([size(x)], 0.5)
    ),
    "partition": lambda x: tf.dynamic_partition(x, positive(x), 2)[1],
    "crossed": lambda x: keras.layers.HashedCrossing(5)((positive(x), positive(-x))),
    "frames": lambda x: tf.signal.frame(x, 2, 1),
    "images": lambda x: tf.nn.max_pool2d(tf.image.resize(x[:, :, None, None], [4, 4]), 2, 2, "SAME"),
    "dropout": lambda x: tf.nn.dropout(x, 0.5, seed=1),
    "ctc": lambda x: tf.nn.ctc_loss(
        tf.ones([size(x), 1], tf.int32), tf.tile(x[:, None], [1, 3, 2]), tf.fill([size(x)], 1), tf.fill([size(x)], 3),
        logits_time_major=False,
    ),
}  # fmt: skip
MEETING = {
    "a column of the next example": (
        lambda x: tf.gather(tf.reshape(tf.concat([x, x], 1), [-1]), tf.range(size(x)) * 4 + 5),
        "AddV2",
    ),
    "columns for a number of examples": (
        lambda x: tf.gather(x, tf.constant(4 * [[0], [1]]), batch_dims=1),
        "GatherV2",
    ),
    "sums of numbers": (
        lambda x: tf.math.unsorted_segment_sum(tf.range(size(x)), tf.cast(x[:, 0], tf.int32), size(x)),
        "UnsortedSegmentSum",
    ),
    "inverse of an order": (
        lambda x: tf.scatter_nd(tf.cast(x[:, :1], tf.int32), tf.range(size(x)), [size(x)]),
        "ScatterNd",
    ),
    "numbers that some rows change": (
        lambda x: tf.tensor_scatter_nd_update(
            tf.range(size(x)), tf.where(x[:, 0] > 0), positive(tf.boolean_mask(x, x[:, 0] > 0))
        ),
        "TensorScatterUpdate",
    ),
    "changed to numbers": (
        lambda x: (lambda m: tf.tensor_scatter_nd_update(positive(x), m, tf.cast(m[:, 0], tf.int32)))(
            tf.where(x[:, 0] > 0)
        ),
        "TensorScatterUpdate",
    ),
    "as many as another mask leaves": (
        lambda x: tf.boolean_mask(x, x[:, 0] > 0) - tf.fill([size(tf.boolean_mask(x, x[:, 0] <= 0)), 1], 0.5),
        "Sub",
    ),
    "one kind in the place of another": (
        lambda x: tf.tensor_scatter_nd_update(x, tf.where(x[:, 0] > 0), tf.boolean_mask(x, x[:, 0] <= 0)),
        "TensorScatterUpdate",
    ),
    "reversed": (lambda x: tf.reverse(x, [0]), "ReverseV2"),
    "reversed by a slice": (lambda x: x[::-1], "StridedSlice"),
    "rolled": (lambda x: tf.roll(x, 1, 0), "Roll"),
    "masks of two kinds": (lambda x: tf.subtract(*(tf.boolean_mask(x, positive(x) == k) for k in (0, 1))), "Sub"),
    "products of two kinds": (
        lambda x: tf.matmul(*(tf.boolean_mask(x, positive(x) == k) for k in (0, 1)), transpose_a=True),
        "MatMul",
    ),
    "two kinds side by side": (
        lambda x: tf.concat([tf.boolean_mask(x, positive(x) == k) for k in (0, 1)], 1),
        "ConcatV2",
    ),
    "parts of two kinds": (lambda x: tf.subtract(*tf.dynamic_partition(x, positive(x), 2)), "Sub"),
    "parts joined in another order": (lambda x: x - tf.concat(tf.dynamic_partition(x, positive(x), 2), 0), "Sub"),
    "kinds in branches": (
        lambda x: (
            tf.boolean_mask(x, positive(x) == 1)
            - tf.cond(
                W[0, 0] > 0, lambda: tf.boolean_mask(x, positive(x) == 0), lambda: tf.boolean_mask(x, x[:, 1] > 0)
            )
        ),
        "Sub",
    ),
    "numbers among others": (
        lambda x: tf.gather(x, tf.where(tf.boolean_mask(x, x[:, 0] > 0)[:, 1] > 0)[:, 0]),
        "GatherV2",
    ),
    "half as many": (lambda x: tf.ones([size(x) // 2, 2]), "Fill"),
    "one row more": (lambda x: tf.scatter_nd(tf.range(size(x))[:, None], x, [size(x) + 1, 2]), "ScatterNd"),
    "segments up to the last that has any": (
        lambda x: (lambda m: tf.math.segment_sum(tf.boolean_mask(x, m), tf.where(m)[:, 0]))(x > 0),
        "SegmentSum",
    ),
    "passed on from turn to turn": (
        lambda x: (
            x @ W
            - tf.while_loop(
                lambda k, *_: k < 20,
                lambda k, *values: (k + 1, tf.reduce_max(x @ W), *values[:-1]),
                [0, *(tf.constant(0.0) for _ in range(9))],
            )[-1]
        ),
        "Sub",
    ),
    "sorted": (lambda x: tf.sort(x, axis=0), "TopKV2"),
    "cumulated": (lambda x: tf.cumsum(x, axis=0), "Cumsum"),
    "best": (lambda x: tf.math.top_k(x[:, 0], 2).values, "TopKV2"),
    "permuted": (lambda x: tf.gather(x, tf.argsort(x[:, 0])), "TopKV2"),
    "shuffled": (tf.random.shuffle, "RandomShuffle"),
    "centred": (lambda x: x @ W - tf.reduce_mean(x @ W, 0), "Sub"),
    "centred behind a gradient of its own": (
        lambda x: (lambda h: h - tf.reduce_mean(h, 0))(tf.grad_pass_through(tf.sign)(x @ W)),
        "Sub",
    ),
    "centred behind one that is defined further on": (
        lambda x: (lambda h: h - tf.reduce_mean(h, 0))(quantized(x @ W)),
        "Sub",
    ),
    "normalized by hand": (
        lambda x: tf.nn.batch_normalization(x @ W, *tf.nn.moments(x @ W, 0), 0.0, 1.0, 1e-3),
        "Mul",  # by the mean; the variance is taken from a detached one, which is that of the whole batch
    ),
    "softmax over the batch": (lambda x: tf.nn.softmax(x, axis=0), "Softmax"),
    "first": (lambda x: x[0], "StridedSlice"),
    "without the first": (lambda x: x[1:], "StridedSlice"),
    "halves": (lambda x: tf.split(x, 2)[0], "Split"),
    "pairs": (lambda x: tf.matmul(x, x, transpose_b=True), "MatMul"),
    "pairs by einsum": (lambda x: tf.einsum("id,jd->ij", x, x), "Einsum"),
    "pairs by broadcasting": (lambda x: x[:, None] - x[None], "Sub"),
    "pairs by accident": (lambda x: x[:, 0] - x[:, :1], "Sub"),
    "pairs by tiles": (lambda x: tf.repeat(x, size(x), axis=0), "Tile"),
    "two by two": (lambda x: tf.reshape(x, [-1, 4]), "Reshape"),
    "numbers": (lambda x: x * tf.cast(tf.range(size(x)), tf.float32)[:, None], "Mul"),
    "quantized by its own range": (
        lambda x: tf.quantization.quantize_and_dequantize_v2(x, 0.0, 0.0, range_given=False),
        "QuantizeAndDequantizeV4",
    ),
    "size": (lambda x: x / tf.cast(size(x), tf.float32), "RealDiv"),
    "unique": (lambda x: tf.unique(positive(x))[0], "Unique"),
    "class means": (lambda x: tf.gather(tf.math.unsorted_segment_mean(x @ W, positive(x), 2), positive(x)), "GatherV2"),
    "scan": (lambda x: tf.scan(lambda a, row: a + row, x), "StatelessWhile"),
    "vectorized map of pairs": (
        lambda x: tf.vectorized_map(lambda row: tf.reduce_max(tf.linalg.matvec(x, row)), x),
        "Transpose",
    ),
    "vectorized map of differences": (
        lambda x: tf.vectorized_map(lambda row: row - tf.reduce_mean(x @ W, 0), x),
        "Sub",
    ),
    "chosen by the size": (lambda x: tf.where(size(x) > 3, x, 2.0 * x), "SelectV2"),
    "loop over rows": (
        lambda x: tf.while_loop(lambda k, a: k < size(x), lambda k, a: (k + 1, a + x[k]), [0, tf.zeros(2)])[1],
        "StatelessWhile",
    ),
    "a turn of all for each": (
        lambda x: tf.while_loop(lambda k, _: k < size(x), lambda k, a: (k + 1, tf.tanh(a)), [0, x])[1],
        "StatelessWhile",
    ),
    "Python": (lambda x: tf.py_function(lambda rows: rows, [x], tf.float32), "EagerPyFunc"),
}


@functools.cache
def meetings(function):
    graph = capture(lambda x: tf.reduce_sum(tf.cast(function(x), tf.float32)), [tf.TensorSpec([8, 2])], VariableNames())
    graph = graph.graph
    split = [node_of(i.tensor) for i in graph.inputs if i.split]
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], split)
    return analysis, analysis.dependence.meetings([output.tensor for output in graph.outputs])


@pytest.mark.parametrize("name", APART)
def test_examples_that_stay_apart(name):
    assert not meetings(APART[name])[1]


@pytest.mark.parametrize("name", MEETING)
def test_examples_that_meet(name):
    function, op = MEETING[name]
    analysis, _ = meetings(function)
    assert op in {analysis.nodes[cause].op for cause in analysis.dependence.causes}


BY_ROW = sorted(
    set(APART)
    - {
        "dropout",
        "noise for what a mask leaves",
        "centred by the sign of data",
        "centred by the mean of data",
        "scaled by the maximum of data",
        "choice",
    }
)


@pytest.mark.parametrize("name", BY_ROW)
def test_what_stays_apart_is_computed_alike_from_parts(name):
    """The table against the kernels: an output's elements are those of the parts, in whatever order."""
    x = np.random.default_rng(1).normal(size=(8, 2)).astype("float32")
    whole = np.sort(np.ravel(APART[name](tf.constant(x))))
    parts = [np.ravel(APART[name](tf.constant(part))) for part in (x[:3], x[3:])]
    np.testing.assert_allclose(np.sort(np.concatenate(parts)), whole, rtol=1e-5, atol=1e-6)


def test_batch_normalization_by_replica_is_nobodys_surprise():
    layer = keras.layers.BatchNormalization()
    layer.build([None, 2])
    assert not meetings(lambda x: layer(x @ W, training=True))[1]
