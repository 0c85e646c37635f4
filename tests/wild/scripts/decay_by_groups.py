"""Two optimizers for two groups of variables, one with weight decay except for biases; Ftrl for a wide table.

Kind: optimizers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(76)
ids, x, y = (
    rng.integers(0, 30, (50, 3)),
    rng.normal(size=(50, 4)).astype("float32"),
    rng.integers(0, 2, 50).astype("float32"),
)
ad = autodist.AutoDist()
with ad.scope():
    wide = keras.layers.Embedding(30, 1)
    wide.build()
    deep = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    adam, ftrl = (
        keras.optimizers.AdamW(0.02, weight_decay=0.1),
        keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    )
    adam.exclude_from_weight_decay(var_names=["bias"])

    @ad.function
    def step(ids, x, y):
        with tf.GradientTape() as tape:
            logits = tf.reduce_sum(wide(ids), axis=(1, 2)) + deep(x)[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
        of_wide, of_deep = tape.gradient(loss, [wide.trainable_variables, deep.trainable_variables])
        ftrl.apply_gradients(zip(of_wide, wide.trainable_variables))
        adam.apply_gradients(zip(of_deep, deep.trainable_variables))
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((ids, x, y)).batch(9))]
found = {
    "weights": wide.get_weights() + deep.get_weights(),
    "slots": [v.numpy() for v in adam.variables + ftrl.variables],
    "losses": losses,
}
