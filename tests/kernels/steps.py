"""Steps to be rewritten, and their rewritings for every worker of a made-up cluster."""

import itertools

import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import needs_servers


def captured(num_dense=3, sparse=True):
    """A step over some dense variables and perhaps a table."""
    weights = [tf.Variable(tf.ones([4]), name=f"w{k}") for k in range(num_dense)]
    table = tf.Variable(tf.ones([9, 4]), name="table")
    counter = tf.Variable(0, name="counter")
    variables = [*weights, table] if sparse else weights

    def step(x, ids):
        with tf.GradientTape() as tape:
            row = tf.nn.embedding_lookup(table, ids) if sparse else 1.0
            loss = tf.reduce_mean(x * tf.add_n(weights) * row)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(gradient)
            else:
                variable.assign_sub(gradient)
        counter.assign_add(1)
        return loss

    specs = [tf.TensorSpec([8, 4]), tf.TensorSpec([8], tf.int32)]
    return capture(step, specs, VariableNames()).graph


def layers(*widths, dtype="float32", rounds=1):
    """A step of dense layers with biases; each round updates all variables by their gradients at the new values."""
    sizes = (4, *widths)
    weights = [
        tf.Variable(tf.cast(tf.sin(tf.reshape(tf.range(float(a * b)) + k, [a, b])), dtype), name=f"w{k}")
        for k, (a, b) in enumerate(itertools.pairwise(sizes))
    ]
    biases = [tf.Variable(tf.zeros([b], dtype), name=f"b{k}") for k, b in enumerate(widths)]
    variables = [v for pair in zip(weights, biases, strict=True) for v in pair]

    def step(x):
        for _ in range(rounds):
            with tf.GradientTape() as tape:
                value = tf.cast(x, dtype)
                for weight, bias in zip(weights, biases, strict=True):
                    value = tf.tanh(value @ weight + bias)
                loss = tf.reduce_mean(tf.square(value - 0.5))
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.1 * gradient)
        return loss

    return step


def rewritten(graph, builder, workers, replicas, *, observer=None):
    """The graph of each worker."""
    spec = ResourceSpec.local(workers=workers, cpus=replicas)
    graph, strategy = prepare(graph, builder.build(graph, spec))
    layouts = [
        Layout.of(strategy, spec, rank, server=workers > 1 and needs_servers(strategy)) for rank in range(workers)
    ]
    return [rewrite(graph, layout, kernels_for(graph, strategy), observer)[0] for layout in layouts]


def ops(graph, op):
    """Names of the nodes of one type."""
    return [node.name for node in graph.graph_def.node if node.op == op]
