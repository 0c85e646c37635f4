"""A step that looks up words in a tf.lookup.StaticHashTable, and unknown words by hash.

Kind: data
"""

import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(45)
words, y = rng.choice(["a", "b", "c", "new", "other"], 45), rng.normal(size=45).astype("float32")
initializer = tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], tf.range(3, dtype=tf.int64))
table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)
ad = autodist.AutoDist()
with ad.scope():
    vectors = tf.Variable(tf.zeros((5, 3)))
    head = tf.Variable(tf.ones((3,)))
    optimizer = tf.keras.optimizers.Adagrad(0.5)

    @ad.function
    def step(words, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(tf.gather(vectors, table.lookup(words)), head) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [vectors, head]), [vectors, head]))
        return loss

    losses = [
        step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((words, y)).batch(10))
    ]
found = {"weights": [vectors.numpy(), head.numpy()], "losses": losses}
