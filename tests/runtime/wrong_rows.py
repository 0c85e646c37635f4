"""`wrong_rows.py WORKER STRATEGY [caught]`: looks up rows in two tables; in the third step one has a wrong number."""

import sys

import numpy as np
import tensorflow as tf

import autodist


def main():
    wrong, strategy = int(sys.argv[1]), sys.argv[2]
    with autodist.scope(strategy=strategy) as ad:
        tables = [tf.Variable(tf.ones([10, 4]), name=f"table_{k}") for k in range(2)]

        @ad.function
        def step(ids):
            with tf.GradientTape() as tape:
                rows = [tf.nn.embedding_lookup(table, ids) for table in tables]
                loss = tf.reduce_mean(rows[0] * rows[1])
            for table, gradient in zip(tables, tape.gradient(loss, tables), strict=True):
                table.scatter_sub(gradient)
            return loss

        ids = np.arange(8, dtype=np.int32)
        for number in range(3):
            if number == 2:
                ids[4 * wrong] = 99
            try:
                print(f"loss {number}", float(step(ids)), file=sys.stderr, flush=True)
            except Exception as error:
                if "caught" not in sys.argv:
                    raise
                print("caught", type(error).__name__, file=sys.stderr, flush=True)
                break


if __name__ == "__main__":
    main()
