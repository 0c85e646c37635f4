"""Variables live on any device of any host, hosts have any number of replicas, and the result is that of one device."""

import keras
import numpy as np
import tensorflow as tf

from autodist.testing import certify_in_process
from tests.quick import combinations

from . import plans

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
IDS = np.random.default_rng(1).integers(6, size=(7,)).astype(np.int32)
BATCHES = [(X, IDS), (X[::-1][:5], IDS[:5]), (X + 1, IDS[::-1])]


def make_step(optimizer=lambda: keras.optimizers.Adam(0.1, epsilon=1e-2)):
    """A dense and a sparse variable, a counter, an average of weights, per-example outputs."""
    w = tf.Variable(tf.linspace([-1.0, 0.5, 1.0], [1.0, -0.5, 0.0], 4), name="w")
    table = tf.Variable(tf.reshape(tf.range(18.0) / 10, [6, 3]), name="table")
    average, seen = tf.Variable(tf.zeros([4, 3]), name="average"), tf.Variable(0, name="seen")
    chosen = optimizer()
    chosen.build([w, table])

    def step(x, ids):
        with tf.GradientTape() as tape:
            rows = tf.tanh(x @ w) + tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_mean(tf.square(rows - 0.3))
        chosen.apply_gradients(zip(tape.gradient(loss, [w, table]), [w, table], strict=True))
        average.assign(0.5 * average + 0.5 * w)
        seen.assign_add(tf.size(ids))
        return loss, rows

    return step


ALL = ("h0:CPU:0", "h0:CPU:1", "h1:CPU:0", "h1:CPU:1")
PLACES = {
    "one replica here, two there": (ALL[:1] + ALL[2:], ["h0:CPU:0", "h1:CPU:0"]),
    "second devices": (ALL, ["h0:CPU:1", "h1:CPU:1"]),
    "a host that only serves": (("h0:CPU:1", "h1:CPU:0", "h1:CPU:1"), ["h2:CPU:0"]),
    "a chief that only serves": (("h1:CPU:0", "h2:CPU:0"), ["h0:CPU:1"]),
    "one replica in all": (("h1:CPU:0",), ["h0:CPU:0", "h1:CPU:1"]),
}
OPTIONS = {
    "flat": {},
    "stations": {"transfer": ("h1:CPU:1",)},
}


def hosts_of(replicas, destinations):
    names = {name.split(":")[0] for name in (*replicas, *destinations)}
    return plans.hosts(*([2] * len(names)))


@combinations(place=PLACES, options=OPTIONS)
def test_equals_one_device(place, options):
    replicas, destinations = PLACES[place]
    hosts = hosts_of(replicas, destinations)
    chosen = OPTIONS[options] if any(name.startswith("h1") for name in replicas) else {}
    certify_in_process(make_step, BATCHES, lambda g: plans.served(g, replicas, destinations, **chosen), hosts)
