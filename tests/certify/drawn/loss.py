"""Losses, drawn from a seed: half of them of the whole batch."""

import random

import tensorflow as tf

from ..data import mean_squared


def number_of_rows(p):
    """A number where Python knows it, in loops of the program's own."""
    return p.shape[0] or tf.shape(p)[0]


@tf.function
def turned_until_small(p):
    """As many turns as the example that needs most of them; a function, since Keras converts no loss."""
    state, turns = tf.zeros_like(p), 0
    while tf.reduce_max(tf.abs(tf.tanh(0.5 * state + p) - state)) > 0.05 and turns < 6:
        state, turns = tf.tanh(0.5 * state + p), turns + 1
    return tf.tanh(0.5 * tf.stop_gradient(state) + p)


def by_branch(p):
    """What all examples together decide."""
    return tf.cond(tf.reduce_mean(p) > 0.2, lambda: 0.5 * p, lambda: p + 0.1)


def less_the_mean_of_its_group(p):
    """Groups of which each replica has some members."""
    group = tf.cast(p[:, 0] > tf.reduce_mean(p), tf.int32)
    return p - 0.5 * tf.gather(tf.math.unsorted_segment_mean(p, group, 2), group)


def with_every_second(p):
    """Pairs out of one batch, by numbers of rows."""
    n = tf.shape(p)[0]
    return p + 0.3 * tf.gather(tf.gather(p, tf.range(0, n, 2)), tf.range(n) // 2)


MIXED = {
    "as they are": lambda p: p,
    "centred": lambda p: p - tf.reduce_mean(p, 0),
    "scaled": lambda p: p / tf.sqrt(1.0 + tf.reduce_mean(tf.square(p))),
    "rolled": lambda p: p + 0.5 * tf.roll(p, 1, 0),
    "reversed": lambda p: 0.7 * p + 0.3 * tf.reverse(p, [0]),
    "sorted": lambda p: tf.sort(p, axis=0),
    "added up": lambda p: 0.2 * tf.cumsum(p, axis=0),
    "weighted": lambda p: p * tf.nn.softmax(p, axis=0),
    "first": lambda p: p + 0.1 * p[:1],
    "shuffled": lambda p: tf.gather(p, tf.argsort(tf.sin(3.0 * p[:, 0]))),
    "by number": lambda p: p + 0.1 * tf.cast(tf.linspace(0.0, 1.0, number_of_rows(p)), p.dtype)[:, None],
    "of a fixed shape": lambda p: p + 0.1 * tf.tanh(tf.reshape(p, [number_of_rows(p), 1])[::-1]),
    "in a loop": lambda p: tf.map_fn(lambda row: tf.tanh(row) + 0.1 * tf.reduce_sum(row), p),
    "turned until small": turned_until_small,
    "by branch": by_branch,
    "less the mean of its group": less_the_mean_of_its_group,
    "with every second": with_every_second,
    "without diagonal": lambda p: tf.matmul(1.0 - tf.eye(tf.shape(p)[0], dtype=p.dtype), tf.tanh(p)) / 4.0,
}
REDUCED = {
    "mean": tf.reduce_mean,
    "median": lambda e: tf.sort(e[:, 0])[tf.shape(e)[0] // 2] + 0.1 * tf.reduce_mean(e),
    "worst third": lambda e: tf.reduce_mean(tf.math.top_k(e[:, 0], tf.maximum(1, tf.shape(e)[0] // 3)).values),
    "sum": lambda e: 0.1 * tf.reduce_sum(e),
    "root": lambda e: tf.sqrt(0.01 + tf.reduce_mean(e)),
    "log of sum": lambda e: tf.reduce_logsumexp(e),
    "largest": lambda e: tf.reduce_max(e),
    "hardest": lambda e: tf.reduce_mean(tf.math.top_k(e[:, 0], 3).values),
    "ratio": lambda e: tf.reduce_sum(tf.square(e)) / (1.0 + tf.reduce_sum(e)),
    "spread": lambda e: tf.reduce_mean(e) + tf.math.reduce_variance(e),
    "pairs": lambda e: tf.reduce_mean(tf.nn.softplus(e[:, None, 0] - e[None, :, 0])),
    "picked": lambda e: tf.reduce_mean(tf.boolean_mask(e, e[:, 0] >= tf.reduce_mean(e))),
}


def drawn_loss(seed):
    """A loss of (y, predicted), one number for each example."""
    chance = random.Random(f"loss {seed}")
    if chance.random() < 0.5:
        return mean_squared
    names = chance.choice(sorted(MIXED)), chance.choice(sorted(REDUCED))
    mixed, reduced = MIXED[names[0]], REDUCED[names[1]]

    def loss(y, predicted):
        return reduced(tf.square(y - mixed(predicted)))

    loss.__doc__ = f"{names[1]} of what is {names[0]}"
    return loss
