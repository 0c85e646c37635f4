"""Strings as examples: parsed as records and as lines, cut into characters, and joined over the batch in the step.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(301)
words = [" ".join(rng.choice(["red", "grün", "blue", "dog"], n)) for n in rng.integers(1, 6, size=29)]
lines = [",".join(str(round(float(v), 3)) if v > -1 else "" for v in row) for row in rng.normal(size=(29, 3))]


def record(k):
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(size=4))),
        "tags": tf.train.Feature(int64_list=tf.train.Int64List(value=range(k % 4))),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


data = tf.data.Dataset.from_tensor_slices((words, lines, [record(k) for k in range(29)])).batch(8)
spec = {"x": tf.io.FixedLenFeature([4], tf.float32), "tags": tf.io.RaggedFeature(tf.int64)}
ad = autodist.AutoDist()
with ad.scope():
    table = tf.Variable(rng.normal(size=(16, 3)).astype("float32"), name="table")
    weights = tf.Variable(rng.normal(size=(7, 3)).astype("float32"), name="weights")
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-2)

    @ad.function
    def step(text, line, example):
        with tf.GradientTape() as tape:
            parsed = tf.io.parse_example(example, spec)
            columns = tf.stack(tf.io.decode_csv(line, [[0.5]] * 3), axis=1)
            rows = tf.concat([parsed["x"], columns], axis=1) @ weights
            characters = tf.strings.unicode_decode(text, "UTF-8")
            pieces = tf.gather(table, characters % 16)
            longest = tf.cast(tf.reduce_max(characters.row_lengths()), tf.float32)
            whole = tf.strings.to_hash_bucket_fast(tf.strings.reduce_join(text, separator="|"), 7)
            most_tags = tf.cast(tf.shape(parsed["tags"].to_tensor())[1], tf.float32)
            loss = tf.reduce_mean((tf.reduce_mean(pieces, axis=1) - rows) ** 2) * (1.0 + tf.cast(whole, tf.float32))
            loss += tf.math.reduce_std(rows) / longest + 0.1 * most_tags * tf.reduce_mean(weights**2)
        gradients = tape.gradient(loss, [table, weights])
        optimizer.apply(gradients, [table, weights])
        return loss, tf.strings.reduce_join(text, separator="|")

    results = [step(*batch) for _ in range(2) for batch in ad.shard(data)]
found = {
    "weights": [table.numpy(), weights.numpy()],
    "losses": [float(loss) for loss, _ in results],
    "lengths": [len(text.numpy()) for _, text in results],
}
