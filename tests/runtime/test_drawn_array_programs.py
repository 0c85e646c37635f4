"""Random functions of arrays, cut along random dims: what comes out is what one device finds."""

import random

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.graph.layouts import _argument_layouts, _plan, _plan_costs
from autodist.resource_spec import ResourceSpec

SIZES = (12, 6, 18, 13, 1)


def _square(made, chosen):
    one = chosen.choice(made)
    return tf.matmul(one, one, transpose_a=True) / 10.0


def _product(made, chosen):
    one = chosen.choice(made)
    other = chosen.choice([other for other in made if other.shape[0] == one.shape[1]] or [tf.transpose(one)])
    return one @ other / 4.0


def _pair(operation):
    def pair(made, chosen):
        one = chosen.choice(made)
        other = chosen.choice([o for o in made if o.shape == one.shape] or [one])
        return operation(one, other)

    return pair


def _each(operation):
    return lambda made, chosen: operation(chosen.choice(made))


def _along(operation):
    return lambda made, chosen: operation(chosen.choice(made), chosen.randrange(2))


def _joined(made, chosen):
    one, dim = chosen.choice(made), chosen.randrange(2)
    fitting = [other for other in made if other.shape[1 - dim] == one.shape[1 - dim]]
    return tf.concat([one, chosen.choice(fitting)], dim)[:24, :24]


def _cut(made, chosen):
    one = chosen.choice(made)
    begin = [chosen.randrange(max(1, size // 2)) for size in one.shape]
    return (
        one[begin[0] :, begin[1] :] if chosen.random() < 0.5 else one[:: chosen.choice([1, -1, 2]), : -begin[1] or None]
    )


def _picked(made, chosen):
    one = chosen.choice(made)
    rows = tf.argmax(one, 1) % one.shape[0]
    return tf.gather(one, rows)


def _summed_by(made, chosen):
    one = chosen.choice(made)
    groups = tf.argmin(one, 1) % 3
    return tf.math.unsorted_segment_sum(one, groups, 6)


def _looped(made, chosen):
    one = chosen.choice(made)
    for _ in tf.range(2):
        one = tf.tanh(one) + tf.reduce_mean(one, 0)
    return one


def _differentiated(made, chosen):
    one = chosen.choice(made)
    with tf.GradientTape() as tape:
        tape.watch(one)
        loss = tf.reduce_sum(tf.nn.softmax(one @ tf.transpose(one)) ** 2)
    return tape.gradient(loss, one)


def _reshaped(made, chosen):
    one = chosen.choice(made)
    fitting = [size for size in (2, 3, 6) if one.shape.num_elements() % size == 0]
    return tf.reshape(one, [chosen.choice(fitting or [1]), -1])[:, :24]


OPERATIONS = (
    *(_product, _square, _joined, _cut, _picked, _summed_by, _looped, _differentiated, _reshaped),
    *map(_pair, (tf.add, tf.multiply, tf.maximum, lambda a, b: tf.where(a > b, a, b * 0.5))),
    *map(_each, (tf.transpose, tf.tanh, tf.nn.softmax, lambda a: a[:, None, :] [:, 0], lambda a: tf.roll(a, 1, 0))),
    *(_along(f) for f in (
        lambda a, d: a - tf.reduce_mean(a, d, keepdims=True),
        lambda a, d: a + tf.reduce_max(a, d, keepdims=True),
        lambda a, d: tf.broadcast_to(tf.reduce_sum(a, d, keepdims=True), a.shape) / 8.0,
        lambda a, d: tf.cumsum(a, d) / 4.0,
        lambda a, d: tf.sort(a, d),
        lambda a, d: tf.reverse(a, [d]),
        lambda a, d: tf.math.l2_normalize(a, d),
        lambda a, d: tf.one_hot(tf.argmax(a, d), 6),
    )),
)  # fmt: skip


def _weights(one):
    """Each element counts otherwise, so that it matters where it is."""
    return np.cos(np.arange(one.shape.num_elements(), dtype=np.float32)).reshape(one.shape)


def drawn(seed):
    """A random function, arrays, the dims that are cut (or True), and a number of replicas."""
    chosen = random.Random(seed)
    numbers, replicas = np.random.default_rng(seed), chosen.choice([2, 2, 3])
    shapes = [[chosen.choice(SIZES[:4]), chosen.choice(SIZES)] for _ in range(chosen.choice([1, 2, 2, 3]))]
    arrays = [numbers.normal(size=shape).astype(np.float32) for shape in shapes]
    fitting = [[*(d for d in range(2) if shape[d] >= replicas), None] for shape in shapes]
    dims = tuple(chosen.choice(found) for found in fitting)
    steps, begun = chosen.randrange(2, 12), chosen.getstate()

    def program(*given):
        chosen.setstate(begun)
        made = list(given)
        for _ in range(steps):
            made.append(chosen.choice(OPERATIONS)(made, chosen))
        return made[-1], [tf.reduce_sum(one * _weights(one)) for one in made[len(given) :]]

    return program, arrays, True if chosen.random() < 0.4 or set(dims) == {None} else dims, replicas


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=() if seed < 8 else pytest.mark.slow) for seed in range(80)])
def test_a_random_function_finds_what_one_device_finds(seed, monkeypatch):
    for module in (_plan, _plan_costs, _argument_layouts):  # small arrays are exchanged as large ones are
        monkeypatch.setattr(module, "LATENCY_BYTES", 0)
    program, arrays, dims, replicas = drawn(seed)
    expected = tf.nest.flatten(tf.function(program)(*map(tf.constant, arrays)))
    with autodist.scope(ResourceSpec.local(cpus=replicas)):
        found = tf.nest.flatten(autodist.function(program, arrays=dims)(*arrays))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
