"""A custom loop with a validation step, a tf.function that updates metrics and takes no gradient.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(60)
x, y = rng.normal(size=(64, 5)).astype("float32"), rng.integers(0, 3, 64)
train = tf.data.Dataset.from_tensor_slices((x[:44], y[:44])).batch(10)
held_out = tf.data.Dataset.from_tensor_slices((x[44:], y[44:])).batch(8)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(3)]
    )
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer, hits, mean = keras.optimizers.SGD(0.2), keras.metrics.SparseCategoricalAccuracy(), keras.metrics.Mean()

    @ad.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        hits.update_state(y, logits)
        return loss

    @ad.function
    def test_step(x, y):
        logits = model(x, training=False)
        hits.update_state(y, logits)
        mean.update_state(loss_of(y, logits), sample_weight=tf.shape(x)[0])

    results = []
    for epoch in range(2):
        for batch in ad.shard(train):
            train_step(*batch)
        results.append(float(hits.result()))
        hits.reset_state()
        for batch in held_out:
            test_step(*batch)
        results += [float(hits.result()), float(mean.result())]
        hits.reset_state()
        mean.reset_state()
found = {"weights": model.get_weights(), "results": results}
