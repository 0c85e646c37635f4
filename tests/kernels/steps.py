"""Steps to be rewritten, and their rewritings for every worker of a made-up cluster."""

import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec


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


def rewritten(graph, builder, workers, replicas, *, observer=None, server=True):
    """The graph of each worker, where TensorFlow's servers connect several, or nothing does."""
    spec = ResourceSpec.local(workers=workers, cpus=replicas)
    graph, strategy = prepare(graph, builder.build(graph, spec))
    layouts = [Layout.of(strategy, spec, rank, server=server and workers > 1) for rank in range(workers)]
    return [rewrite(graph, layout, kernels_for(graph, strategy), observer)[0] for layout in layouts]


def ops(graph, op):
    """Names of the nodes of one type."""
    return [node.name for node in graph.graph_def.node if node.op == op]
