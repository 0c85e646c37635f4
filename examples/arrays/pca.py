"""Find the directions in which measurements vary most (PCA, by subspace iteration), data generated from a seed.

    python examples/arrays/pca.py                                 on this machine alone
    autodist run examples/arrays/pca.py --workers 2               the same script on two workers

Each worker has half of the measurements, and sends a sum for each direction in each turn.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, count=30_000, length=64, wanted=4):
    random = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(random.normal(size=(length, length)))
    scales = np.concatenate([np.arange(wanted, 0, -1) * 3.0, np.ones(length - wanted)])
    data = (random.normal(size=(count, length)) * scales) @ turned
    return data.astype(np.float32), random.normal(size=(length, wanted)).astype(np.float32)


@autodist.function(arrays=True)
def directions(data, guess):
    """Orthogonal directions, the main one first, and how much the data vary along each."""
    centred = data - tf.reduce_mean(data, 0)
    for _ in tf.range(8):
        guess, _ = tf.linalg.qr(tf.matmul(centred, centred @ guess, transpose_a=True))
    return guess, tf.reduce_mean((centred @ guess) ** 2, 0)


def solve(step, data, guess):
    """What comes out of a call of `step`; the sign of a direction is that of its largest entry."""
    found, variances = step(data, guess)
    largest = tf.gather(tf.transpose(found), tf.argmax(tf.abs(found), 0), batch_dims=1)
    return {"directions": found * tf.sign(largest), "variances": variances}


def main():
    with autodist.scope():
        found = solve(directions, *make_data())
    print("variances along the main directions:", np.round(found["variances"], 2))


if __name__ == "__main__":
    main()
