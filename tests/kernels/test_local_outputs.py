"""What a step returns for batches that workers brought themselves: their rows, if a result is rows and no more."""

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.strategies import AllReduce

from .steps import rewritten


def mean(h):
    return tf.reduce_mean(h)


def contrastive(h):
    return tf.reduce_mean(tf.nn.softmax(tf.matmul(h, h, transpose_b=True)) ** 2)


def results_of(h):
    """Some of one tensor, and some of several."""
    at = tf.where(h > 0)
    values, counts = tf.gather_nd(h, at), tf.reduce_sum(tf.cast(h > 0, tf.int32), 1)
    return {
        "dense": h,
        "numbered": tf.IndexedSlices(h, tf.range(tf.shape(h)[0])),
        "picked": tf.IndexedSlices(h, tf.argmax(h, 1)),
        "ragged": tf.RaggedTensor.from_row_splits(values, tf.concat([[0], tf.cumsum(counts)], 0)),
        "sparse": tf.SparseTensor(at, values, tf.shape(h, tf.int64)),
    }


@pytest.mark.parametrize("loss", [mean, contrastive], ids=lambda loss: loss.__name__)
def test_components_of_one_result_are_of_the_same_rows(loss):
    w = tf.Variable(tf.ones([4, 3]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ w)
            value = loss(h)
        w.assign_sub(tape.gradient(value, w))
        return results_of(h)

    captured = capture(step, [tf.TensorSpec([8, 4])], VariableNames())
    names = [name for name, kind in captured.structure.items() for _ in tf.nest.flatten(kind, expand_composites=True)]
    for graph in rewritten(captured.graph, AllReduce(), 2, 1):
        found = {name: set() for name in names}
        for name, whole, local in zip(names, graph.outputs, graph.local_outputs, strict=True):
            found[name].add(local != whole)
        assert found == {"dense": {True}, "numbered": {False}, "picked": {True}, "ragged": {False}, "sparse": {False}}
