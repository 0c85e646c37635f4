"""Tell two classes apart by few examples of many features, data generated from a seed.

    python examples/arrays/logistic_regression.py                              on this machine alone
    autodist run examples/arrays/logistic_regression.py --workers 2            the same script on two workers

There are more features than examples: each worker has half of the features, and a number for each example is sent,
besides the weights.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, count=400, length=20_000):
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, length)).astype(np.float32)
    weights = random.normal(size=length) * (random.random(length) < 0.01)
    return features, (features @ weights > 0).astype(np.float32)


@autodist.function(arrays=True)
def step(features, labels, weights):
    """A step of gradient descent; returns the new weights, and the loss before."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        scores = tf.linalg.matvec(features, weights)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, scores)
        loss = tf.reduce_mean(losses) + 1e-4 * tf.reduce_sum(weights**2)
    return weights - 0.01 * tape.gradient(loss, weights), loss


def solve(step, features, labels):
    """What comes out of 20 calls of `step`: the weights, and the loss before the first and before the last."""
    weights = np.zeros(features.shape[1], np.float32)
    losses = []
    for _ in range(20):
        weights, loss = step(features, labels, weights)
        losses.append(loss)
    return {"weights": weights, "before": losses[0], "after": losses[-1]}


def main():
    with autodist.scope():
        found = solve(step, *make_data())
    print(f"loss: {found['before']:.4f} before, {found['after']:.4f} after 19 steps")


if __name__ == "__main__":
    main()
