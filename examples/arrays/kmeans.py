"""Group points around centres (k-means), points generated from a seed.

    python examples/arrays/kmeans.py                              on this machine alone
    autodist run examples/arrays/kmeans.py --workers 2            the same script on two workers

Each worker has half of the points, and sends 32 sums of points and their numbers in each turn.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, count=20_000, length=16, groups=32):
    random = np.random.default_rng(seed)
    middles = random.normal(scale=4.0, size=(groups, length))
    points = middles[random.integers(groups, size=count)] + random.normal(size=(count, length))
    return points.astype(np.float32), points[:groups].astype(np.float32)


@autodist.function(arrays=True)
def improve(points, centres):
    """Ten turns of Lloyd's algorithm; returns centres and the mean squared distance to the nearest of them."""
    distances = tf.zeros(len(points))
    for _ in tf.range(10):
        products = tf.matmul(points, centres, transpose_b=True)
        squares = tf.reduce_sum(points**2, 1)[:, None] - 2 * products + tf.reduce_sum(centres**2, 1)
        belongs = tf.one_hot(tf.argmin(squares, 1), len(centres))
        distances = tf.reduce_min(squares, 1)
        numbers = tf.reduce_sum(belongs, 0)[:, None]
        centres = tf.where(numbers > 0, tf.matmul(belongs, points, transpose_a=True) / tf.maximum(numbers, 1), centres)
    return centres, tf.reduce_mean(distances)


def solve(step, points, centres):
    """What comes out of two calls of `step`: centres, and distances before and after."""
    centres, before = step(points, centres)
    centres, after = step(points, centres)
    return {"centres": centres, "before": before, "after": after}


def main():
    with autodist.scope():
        found = solve(improve, *make_data())
    print(f"mean squared distance: {found['before']:.4f} after 9 turns, {found['after']:.4f} after 19")


if __name__ == "__main__":
    main()
