"""Rank pages by the links between them (PageRank), links generated from a seed.

    python examples/arrays/pagerank.py                            on this machine alone
    autodist run examples/arrays/pagerank.py --workers 2          the same script on two workers

Each worker has half of the links, and adds up what they bring.
"""

import numpy as np
import tensorflow as tf

import autodist


def make_data(seed=0, pages=5000, links=200_000):
    random = np.random.default_rng(seed)
    sources, targets = random.integers(pages, size=links), (pages * random.random(links) ** 2).astype(np.int64)
    numbers = np.maximum(np.bincount(sources, minlength=pages), 1).astype(np.float32)
    return sources.astype(np.int32), targets.astype(np.int32), numbers


@autodist.function(arrays=True)
def ranked(sources, targets, numbers):
    """Ranks after 20 turns, and how much the last turn has changed them."""
    pages = len(numbers)
    ranks, change = tf.fill([pages], 1.0 / pages), tf.constant(0.0)
    for _ in tf.range(20):
        brought = tf.math.unsorted_segment_sum(tf.gather(ranks / numbers, sources), targets, pages)
        new = 0.15 / pages + 0.85 * brought
        ranks, change = new, tf.reduce_sum(tf.abs(new - ranks))
    return ranks, change


def solve(step, *data):
    """What comes out of a call of `step`."""
    ranks, change = step(*data)
    return {"ranks": ranks, "change": change}


def main():
    with autodist.scope():
        found = solve(ranked, *make_data())
    best = np.argsort(-np.asarray(found["ranks"]))[:3]
    print(f"pages of the highest ranks: {best.tolist()}; the last turn has changed ranks by {found['change']:.1e}")


if __name__ == "__main__":
    main()
