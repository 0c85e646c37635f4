"""Trace steps of a deep network: `overlapping.py DIRECTORY`. Workers write what ran when: [{op: [start, end]}, ...]."""

import json
import os
import pathlib
import sys

import numpy as np
import tensorflow as tf

import autodist
from autodist.runtime.session._session_host import SessionHost

WIDTH, LAYERS, EXAMPLES, STEPS = 384, 10, 512, 8


def traced(host, feeds, fetches, targets):
    """In the place of the host's fast callable: ordinary runs of the session, with a trace of each step.

    Values are read without one: both workers read from each other at once, and a process traces one run at a time.
    """
    graph = host._graph
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE, timeout_in_ms=100_000)

    def call(*values):
        nodes = [graph.get_operation_by_name(name) for name in targets]
        if not feeds:  # values are read, between steps
            return host._session.run([list(fetches), nodes])[0]
        metadata = tf.compat.v1.RunMetadata()
        feed = dict(zip(feeds, values, strict=True))
        found = host._session.run([list(fetches), nodes], feed, options=options, run_metadata=metadata)[0]
        traces.append(
            {
                node.node_name: (node.all_start_micros, node.all_start_micros + node.all_end_rel_micros)
                for device in metadata.step_stats.dev_stats
                for node in device.node_stats
            }
        )
        return found

    return call


traces = []


def main():
    SessionHost.callable = traced
    weights = [
        tf.Variable(0.05 * tf.random.stateless_normal([WIDTH, WIDTH], [1, k]), name=f"layer_{k}") for k in range(LAYERS)
    ]

    def step(x):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    x = np.random.default_rng(0).standard_normal((EXAMPLES, WIDTH), dtype=np.float32)
    with autodist.scope() as ad:
        distributed = ad.function(step)
        for _ in range(STEPS):
            distributed(x)
    rank = os.environ["RANK"]
    pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(traces[1:]))


if __name__ == "__main__":
    main()
