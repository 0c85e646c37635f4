"""Programs of arrays that are drawn at random, of operators whose elements need their neighbours or other places.

As a script, by `autodist run`: drawn_stencils.py SEED COUNT runs some, and compares what comes out with one device.
"""

import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist

FEWEST = 6


def filters(number, *shape):
    return tf.constant(np.random.default_rng(number).normal(size=shape) / 3, tf.float32)


def as_image(array):
    return array[None, :, :, None]


def sliced(array, draw, dim):
    length = array.shape[dim]
    return tf.gather(array, tf.range(length), axis=dim) if length < FEWEST else cut(array, draw, dim)


def cut(array, draw, dim):
    first, last, step = draw(0, 2), draw(0, 2), draw(1, 3)
    taken = slice(first, array.shape[dim] - last, step)
    return array[taken] if dim == 0 else array[:, taken]


def turned(array, draw, dim):
    return array - tf.reverse(array, [dim])


def rolled(array, draw, dim):
    return array + tf.roll(array, [draw(-30, 30), draw(-3, 3)], [dim, 1 - dim])


def padded(array, draw, dim):
    around = [draw(0, 3), draw(0, 3)]
    return tf.pad(array, [around, [0, 0]] if dim == 0 else [[0, 0], around], constant_values=draw(0, 1))


def joined(array, draw, dim):
    return tf.concat([array[:2], array, tf.sin(array[-3:])], 0) if dim == 0 else tf.concat([array, -array], 1)


def parted(array, draw, dim):
    half = array.shape[dim] // 2
    first, second = tf.split(array, [half, array.shape[dim] - half], dim)
    return tf.concat([second, first], dim)


def convolved(array, draw, dim):
    kernel = filters(draw(0, 9), draw(1, 4), draw(1, 3), 1, 1)
    return tf.nn.conv2d(as_image(array), kernel, draw(1, 3), ["SAME", "VALID"][draw(0, 1)])[0, :, :, 0]


def by_channel(array, draw, dim):
    padding = [[0, 0], [draw(0, 2), draw(0, 2)], [1, 1], [0, 0]]
    return tf.reduce_sum(tf.nn.depthwise_conv2d(as_image(array), filters(3, 3, 3, 1, 2), [1] * 4, padding), [0, 3])


def transposed(array, draw, dim):
    stride, (height, width) = draw(1, 2), array.shape
    if height * width > 2000:
        return array
    shape = [1, stride * height, stride * width, 1]
    return tf.nn.conv2d_transpose(as_image(array), filters(2, draw(1, 4), 2, 1, 1), shape, stride, "SAME")[0, :, :, 0]


def pooled(array, draw, dim):
    pool = [tf.nn.max_pool2d, tf.nn.avg_pool2d][draw(0, 1)]
    return pool(as_image(array), draw(1, 3), draw(1, 3), ["SAME", "VALID"][draw(0, 1)])[0, :, :, 0]


def centred(array, draw, dim):
    return tf.tanh(array - tf.reduce_mean(array, dim, keepdims=True))


def gradient(array, draw, dim):
    """The way back through a convolution, pooling, a slice, a roll, and a border of zeros."""
    kernel, stride = filters(draw(0, 9), draw(1, 3), 2, 1, 1), draw(1, 2)
    with tf.GradientTape() as tape:
        tape.watch(array)
        found = tf.nn.conv2d(as_image(array), kernel, stride, "SAME")
        found = tf.nn.max_pool2d(found, 2, 2, "VALID")[0, :, :, 0]
        near = tf.concat([found[1:], tf.roll(found, 1, dim)], 0)
        loss = tf.reduce_sum(tf.tanh(near) ** 2) + tf.reduce_sum(tf.pad(found, [[1, 2], [0, 1]])[:-2] ** 2)
    return tape.gradient(loss, array)


OPERATORS = (
    sliced, turned, rolled, padded, joined, parted, convolved, by_channel, transposed, pooled, centred, gradient,
)  # fmt: skip


def drawn(seed):
    """A program, its array, the dim that is cut, and a number of replicas."""
    choice = random.Random(seed)
    steps = [(choice.choice(OPERATORS), choice.random(), choice.randint(0, 1)) for _ in range(choice.randint(1, 6))]

    def program(array):
        found = []
        for operator, own_seed, dim in steps:
            if min(array.shape) >= FEWEST:
                array = operator(array, random.Random(own_seed).randint, dim)
                found.append(tf.reduce_sum(array, 0))
        return (*found, tf.reduce_mean(array, 1), array[:3])

    program.__doc__ = ", ".join(f"{operator.__name__} {dim}" for operator, _, dim in steps)
    size = choice.randint(8, 30), choice.randint(8, 30)
    array = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    return program, array, choice.randint(0, 1), choice.randint(2, 5)


def compare(found, expected, program):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4, err_msg=program.__doc__)


def count_bytes_alone():
    """Have plans send what is smaller than a message's latency, as the arrays of these programs are."""
    from autodist.graph.layouts import _argument_layouts, _plan, _plan_costs

    for module in (_argument_layouts, _plan, _plan_costs):
        module.LATENCY_BYTES = 1


def main():
    count_bytes_alone()
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        program, array, dim, _ = drawn(seed)
        expected = tf.function(program)(tf.constant(array))
        with autodist.scope():
            found = autodist.function(program, arrays=(dim,))(array)
        compare(found, expected, program)
    print(f"{count} programs are those of one device")


if __name__ == "__main__":
    main()
