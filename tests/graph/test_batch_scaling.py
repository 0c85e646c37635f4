import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import BatchScaling, StepAnalysis, VariableNames, capture, node_of

from .expressions import expressions

W = tf.Variable([[1.0, 2.0], [0.5, -1.0]], name="w")


def captured_scalings(step, *specs):
    graph = capture(step, specs or [tf.TensorSpec([8, 2])], VariableNames()).graph
    split = [node_of(i.tensor) for i in graph.inputs if i.split]
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], split)
    return [analysis.scaling(output.tensor) for output in graph.outputs], analysis, graph


def with_moments(x):
    return tf.nn.moments(x @ W, 0)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda x: tf.reduce_mean(x), "mean"),
        (lambda x: tf.reduce_mean(x, 0), "mean"),
        (lambda x: tf.reduce_mean(x, 1), "rows"),
        (lambda x: tf.reduce_sum(x), "sum"),
        (lambda x: tf.reduce_sum(x) / 3.0, "sum"),
        (lambda x: 3.0 / tf.reduce_sum(x), "mixed"),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32), "mean"),
        (lambda x: tf.math.divide_no_nan(tf.reduce_sum(x), tf.cast(tf.size(x), tf.float32)), "mean"),
        (lambda x: tf.reduce_sum(x @ W) / tf.reduce_sum(x), "sum"),
        (lambda x: tf.reduce_sum(x @ W) / tf.reduce_sum(x @ W), "mixed"),
        (lambda x: tf.reduce_mean(x @ W) + 1.0, "mean"),
        (lambda x: tf.reduce_sum(x @ W) + 1.0, "mixed"),
        (lambda x: tf.reduce_mean(x @ W) + tf.reduce_sum(x @ W), "mixed"),
        (lambda x: tf.reduce_mean(x @ W) * tf.cast(tf.shape(x)[0], tf.float32), "sum"),
        (lambda x: tf.sqrt(tf.reduce_mean(x)), "mixed"),
        (lambda x: tf.reduce_max(x), "mixed"),
        (lambda x: tf.shape(x)[0], "count"),
        (lambda x: tf.shape(x)[1], "same"),
        (lambda x: tf.shape(x), "shape"),
        (lambda x: tf.size(x), "count"),
        (lambda x: tf.size(tf.boolean_mask(x, x[:, 0] > 0)), "sum"),
        (lambda x: tf.boolean_mask(x, x[:, 0] > 0), "subset"),
        (lambda x: tf.nn.softmax(x), "rows"),
        (lambda x: tf.transpose(x), "rows"),
        (lambda x: tf.matmul(x, x, transpose_a=True), "sum"),
        (lambda x: tf.constant(1.0), "constant"),
        (lambda x: W + 1.0, "constant"),
        (lambda x: tf.concat([x, x], 1), "rows"),
        (lambda x: tf.stack([tf.reduce_sum(x), tf.reduce_sum(x * x)]), "sum"),
        (lambda x: tf.reduce_sum(tf.cast(x > 0, tf.int32)), "sum"),
        (lambda x: with_moments(x)[0], "mean"),
    ],
)
def test_losses_scale_with_the_batch_as_expected(step, expected):
    (scaling,), _, _ = captured_scalings(step)
    assert scaling is BatchScaling(expected)


def test_sums_of_inputs_are_global_and_sizes_are_not():
    def step(x):
        tokens = tf.reduce_sum(tf.cast(x > 0, tf.float32))
        return tokens, tf.cast(tf.shape(x)[0], tf.float32), tf.reduce_sum(x @ W), tokens / 2.0, tf.size(x)

    _, analysis, graph = captured_scalings(step)
    is_global = [analysis.dependence.is_global(output.tensor) for output in graph.outputs]
    assert is_global == [True, False, False, True, False]


def test_statistics_that_gradients_flow_through_are_a_replicas_own():
    _, analysis, graph = captured_scalings(lambda x: with_moments(x))
    assert not any(analysis.dependence.is_global(output.tensor) for output in graph.outputs)


@settings(max_examples=60, deadline=None)
@given(expressions(), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2**16))
def test_parts_combine_by_scaling(step, sizes, seed):
    scalings, analysis, _ = captured_scalings(step)
    if any(analysis.dependence.is_global(name) for name in analysis.nodes):
        return  # parts use values of the whole batch; the replicated graph is tested in tests/kernels
    x = np.random.default_rng(seed).normal(size=(sum(sizes), 2)).astype(np.float32)
    whole = [np.asarray(value) for value in step(tf.constant(x))]
    parts = [[np.asarray(v) for v in step(tf.constant(p))] for p in np.split(x, np.cumsum(sizes)[:-1])]
    for scaling, expected, *values in zip(scalings, whole, *parts, strict=True):
        combined = combine(scaling, values, sizes)
        if combined is not None:
            np.testing.assert_allclose(combined, expected, rtol=2e-4, atol=1e-4, err_msg=f"{step.__doc__}: {scaling}")


def combine(scaling, values, sizes):
    if scaling in (BatchScaling.SUM, BatchScaling.COUNT):
        return sum(values)
    if scaling is BatchScaling.MEAN:
        return sum(value * size for value, size in zip(values, sizes, strict=True)) / sum(sizes)
    if scaling in (BatchScaling.ROWS, BatchScaling.SUBSET):
        return np.concatenate(values)
    return values[0] if scaling in (BatchScaling.SAME, BatchScaling.CONSTANT) else None
