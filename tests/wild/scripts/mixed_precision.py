"""mixed_float16 with loss scaling in a custom loop; one batch overflows, and its step is skipped.

Kind: optimizers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(72)
x, y = rng.integers(-2, 3, size=(36, 4)).astype("float32"), rng.integers(-2, 3, size=(36, 1)).astype("float32")
x[25] = 1e30
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, "relu", dtype="mixed_float16"), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.01), initial_scale=2.0**8, dynamic_growth_steps=2
    )

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    losses = [
        step(*batch) for _ in range(3) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(10))
    ]
found = {"scale": float(optimizer.dynamic_scale), "steps": int(optimizer.inner_optimizer.iterations)}
