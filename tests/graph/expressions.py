"""Small random expressions of a batch, for hypothesis."""

import tensorflow as tf
from hypothesis import strategies as st

ROW_OPS = {
    "square": lambda rows, x: tf.square(rows),
    "tanh": lambda rows, x: tf.tanh(rows),
    "plus_x": lambda rows, x: rows + x,
    "times_x": lambda rows, x: rows * x,
    "halved": lambda rows, x: rows / 2.0,
    "shifted": lambda rows, x: rows - 1.0,
    "mixed_columns": lambda rows, x: rows @ tf.constant([[1.0, 0.5], [0.0, -2.0]]),
    "row_sums": lambda rows, x: rows + tf.reduce_sum(rows, 1, keepdims=True),
    "positive": lambda rows, x: tf.cast(rows > 0, tf.float32),
    "chosen": lambda rows, x: tf.boolean_mask(rows, rows[:, 0] > 0),
    "centered": lambda rows, x: rows - tf.reduce_mean(rows, 0),
    "normalized": lambda rows, x: rows / (1.0 + tf.reduce_sum(tf.abs(rows))),
}
REDUCTIONS = {
    "sum": lambda rows: tf.reduce_sum(rows),
    "sum_columns": lambda rows: tf.reduce_sum(rows, 0),
    "mean": lambda rows: tf.reduce_mean(rows),
    "mean_columns": lambda rows: tf.reduce_mean(rows, 0),
    "by_hand": lambda rows: tf.reduce_sum(rows) / tf.cast(tf.shape(rows)[0], tf.float32),
    "count": lambda rows: tf.cast(tf.shape(rows)[0], tf.float32),
    "elements": lambda rows: tf.cast(tf.size(rows), tf.float32),
    "width": lambda rows: tf.cast(tf.shape(rows)[1], tf.float32),
    "gram": lambda rows: tf.matmul(rows, rows, transpose_a=True),
}
SCALAR_OPS = {
    "doubled": lambda a, b: 2.0 * a,
    "negative": lambda a, b: -a,
    "plus": lambda a, b: a + tf.reduce_sum(b),
    "times": lambda a, b: a * tf.reduce_mean(b),
    # Centered rows add up to round-off, which a small divisor, or the root of it, would blow up to a difference.
    "over": lambda a, b: a / (1.0 + tf.reduce_sum(tf.square(b))),
    "root": lambda a, b: tf.sqrt(1.0 + tf.abs(a)),
    "above": lambda a, b: tf.cast(a > 0.1, tf.float32),
    "plus_one": lambda a, b: a + 1.0,
}


@st.composite
def expressions(draw):
    """A function of x [None, 2] that returns a row-wise and a reduced tensor, and what it does in words."""
    row_ops = draw(st.lists(st.sampled_from(sorted(ROW_OPS)), max_size=3))
    if "chosen" in row_ops:  # later ops may combine with x, which keeps all rows
        row_ops = [op for op in row_ops if op not in ("chosen", "plus_x", "times_x")] + ["chosen"]
    first, second = draw(st.sampled_from(sorted(REDUCTIONS))), draw(st.sampled_from(sorted(REDUCTIONS)))
    scalar_ops = draw(st.lists(st.sampled_from(sorted(SCALAR_OPS)), max_size=2))

    def step(x):
        rows = x
        for op in row_ops:
            rows = ROW_OPS[op](rows, x)
        one, two = REDUCTIONS[first](rows), REDUCTIONS[second](x)
        for op in scalar_ops:
            one = SCALAR_OPS[op](one, two)
        return rows, one

    step.__doc__ = f"rows: {row_ops}; reduced: {first} (and {second} of x): {scalar_ops}"
    return step
