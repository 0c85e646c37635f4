"""The shape of a variable that lives on another worker is known, also where nothing else is asked for."""

import numpy as np
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import compose


def test_the_gradient_of_gather_nd_needs_no_device_of_another_worker():
    table = tf.Variable(np.ones((4, 4), "float32"))
    other = tf.Variable(np.ones((3,), "float32"))

    def step(x, ids):
        with tf.GradientTape() as tape:
            scores = tf.reduce_sum(tf.gather_nd(table, ids), axis=1)
            loss = tf.reduce_mean(scores * tf.reduce_sum(x * other, axis=1))
        by_table, by_other = tape.gradient(loss, [table, other])
        table.assign_sub(0.1 * tf.convert_to_tensor(by_table))
        other.assign_sub(0.1 * by_other)
        return loss

    captured = capture(step, [tf.TensorSpec((8, 3)), tf.TensorSpec((8, 5, 2), tf.int32)], VariableNames())
    spec = ResourceSpec.local(workers=2, cpus=1)
    training, plan = prepare(captured.graph, compose("PSLoadBalancing(communicator='tcp')", captured.graph, spec))
    for rank in range(2):
        layout = Layout.of(plan, spec, rank, server=False)
        graph, _ = rewrite(training, layout, kernels_for(training, plan, step="step"))
        elsewhere = [n.name for n in graph.graph_def.node if layout.rank_of_tf(n.device) != rank]
        assert elsewhere == []
