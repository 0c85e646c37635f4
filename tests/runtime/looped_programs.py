"""Programs of arrays with loops whose turns depend on data. As a script, it compares them with one device."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def grouped(points, centres):
    """k-means until nothing moves."""
    change, turns = tf.constant(np.inf, tf.float32), 0
    while change > 1e-3 and turns < 30:
        apart = tf.reduce_sum((points[:, None] - centres) ** 2, -1)
        belongs = tf.one_hot(tf.argmin(apart, 1), len(centres))
        new = tf.matmul(belongs, points, transpose_a=True) / (tf.reduce_sum(belongs, 0)[:, None] + 1e-6)
        change, centres, turns = tf.reduce_max(tf.abs(new - centres)), new, turns + 1
    return {"centres": centres, "turns": turns, "mean": tf.reduce_mean(points, 0)}


def largest(matrix, vector):
    """The largest eigenvalue of a matrix that is made before the loop, and a second loop behind it."""
    matrix = tf.matmul(matrix, matrix, transpose_a=True) / len(matrix)
    change = tf.constant(1.0)
    while change > 1e-4:
        new = tf.linalg.matvec(matrix, vector)
        new = new / tf.norm(new)
        change, vector = tf.norm(new - vector), new
    value = tf.norm(tf.linalg.matvec(matrix, vector))
    while tf.norm(matrix) > 1.0:
        matrix = matrix / 2.0 + tf.roll(matrix, 1, 0) / 4.0
    return value, matrix


def nested(array):
    """A loop in a loop."""
    total = tf.constant(0.0)
    while tf.reduce_sum(tf.abs(array)) > 1.0:
        while tf.reduce_max(array) > total:
            total += 1.0
        array = array / 4.0 + (array[::-1] - array) / 16.0
    return array, total


def never(array):
    while tf.reduce_max(array) > 1e6:
        array = array / 2.0
    return array[:3], tf.reduce_sum(array, 0)


PROGRAMS = {
    grouped: [normal(600, 8), normal(6, 8)],
    largest: [normal(60, 40), normal(40)],
    nested: [normal(90, 20)],
    never: [normal(50, 20)],
}


def compare(found, expected):
    tf.nest.assert_same_structure(found, expected)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def count_bytes_alone(put=setattr):
    """Have programs shared that are too small to pay."""
    from autodist.graph.layouts import _argument_layouts, _plan, _plan_costs
    from autodist.runtime import _array_programs

    for module in (_argument_layouts, _plan, _plan_costs):
        put(module, "LATENCY_BYTES", 1)
    put(_array_programs, "_COST_OF_A_CALL_S", 0.0)


def main():
    count_bytes_alone()
    for program, arrays in PROGRAMS.items():
        expected = tf.function(program)(*map(tf.constant, arrays))
        with autodist.scope():
            step = autodist.function(program, arrays=True)
            for _ in range(2):
                compare(step(*arrays), expected)
    print("all programs are those of one device")


if __name__ == "__main__":
    main()
