"""`tiles_of_tables.py DIR`: a table of words that go in and come out; keeps what steps give."""

import os
import sys

import numpy as np
import tensorflow as tf

import autodist

WORDS, WIDTH, ROWS, LENGTH, STEPS = 12_000, 32, 8, 4, 3


def main():
    random, kept = np.random.default_rng(0), {}
    first = (random.normal(size=(WORDS, WIDTH)) / 6).astype(np.float32)
    with autodist.scope() if "RANK" in os.environ else tf.device(None):
        table, scale = tf.Variable(first, name="table"), tf.Variable(tf.ones(WIDTH), name="scale")

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                logits = tf.matmul(tf.nn.embedding_lookup(table, x) * scale, table, transpose_b=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                likely = tf.nn.softmax(2.0 * logits)
                loss = tf.reduce_mean(losses) + tf.reduce_mean(tf.reduce_sum(likely * tf.nn.log_softmax(logits), -1))
            found = tape.gradient(loss, [table, scale])
            table.assign_sub(20.0 * tf.convert_to_tensor(found[0]))
            scale.assign_sub(found[1])
            return loss, tf.argmax(logits, -1)

        for number in range(STEPS):
            x, y = random.integers(0, WORDS, (2, ROWS, LENGTH)).astype(np.int32)
            loss, best = step(x, y)
            kept |= {f"loss_{number}": np.asarray(loss), f"best_{number}": np.asarray(best)}
        kept |= {"table": table.numpy(), "scale": scale.numpy(), "moved": np.abs(table.numpy() - first).max()}
    np.savez(f"{sys.argv[1]}/{os.environ.get('RANK', 'alone')}.npz", **kept)


if __name__ == "__main__":
    main()
