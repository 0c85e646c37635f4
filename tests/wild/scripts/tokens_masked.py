"""A language model whose loss is summed over all words except padding, and divided by their number.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(11)
words = rng.integers(1, 12, size=(30, 7))
words[np.arange(7)[None, :] >= rng.integers(2, 8, size=30)[:, None]] = 0
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential(
        [keras.layers.Embedding(12, 6), keras.layers.GRU(8, return_sequences=True), keras.layers.Dense(12)]
    )
    model.build((None, 6))
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.01)

    @ad.function
    def step(words):
        with tf.GradientTape() as tape:
            logits, mask = model(words[:, :-1], training=True), tf.cast(words[:, 1:] != 0, tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(words[:, 1:], logits)
            loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 0.5)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss, norm

    losses = [step(batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices(words).batch(8))]
found = {"weights": model.get_weights(), "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
