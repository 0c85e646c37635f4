"""Arrays that are cut along unlike dims: workers send each other what they lack. Says what each case finds.

Usage: all_to_all.py CARRIER, by `autodist run`
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist

random = np.random.default_rng(0)
NUMBERS = ("float32", "float64", "float16", "bfloat16", "complex64", "int8", "uint16", "int32", "int64")


def product(x, y):
    return tf.math.count_nonzero(x * y)


def differing(x, y):
    return tf.math.count_nonzero(x ^ y)


def letters(x, y):
    return tf.reduce_sum(tf.strings.length(x + y))


def turned(x, y):
    return tf.reduce_sum(tf.transpose(x) * y)


def numbers(dtype, *shape):
    return tf.cast(random.integers(0, 2, size=shape), dtype).numpy()


CASES = {
    **{dtype: (product, [numbers(dtype, 90, 101) for _ in range(2)], (0, 1)) for dtype in NUMBERS},
    "three dims": (product, [numbers("int32", 11, 20, 23) for _ in range(2)], (0, 2)),
    "later dims first": (product, [numbers("int32", 11, 20, 23) for _ in range(2)], (1, 0)),
    "turned": (turned, [numbers("int32", 70, 100), numbers("int32", 100, 70)], (0, 0)),
    "truths": (differing, [numbers("bool", 100, 70) for _ in range(2)], (0, 1)),
    "texts": (letters, [random.integers(0, 10**6, size=(50, 70)).astype(str).astype(object)] * 2, (0, 1)),
}


if __name__ == "__main__":
    for name, (function, arrays, dims) in CASES.items():
        expected = tf.function(function)(*map(tf.constant, arrays)).numpy()
        with autodist.scope(strategy=f"AllReduce(communicator={sys.argv[1]!r})"):
            found = autodist.function(function, arrays=dims)(*arrays)
        print(name, "as on one device" if found == expected else f"{found} instead of {expected}", flush=True)
