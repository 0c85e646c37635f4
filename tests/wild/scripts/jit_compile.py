"""jit_compile=True in compile and in a custom step, with several steps per execution.

Kind: fit
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(98)
x, y = rng.normal(size=(46, 4)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Lion(0.005)
    model.compile(optimizer, "mse", jit_compile=True, steps_per_execution=2)
    history = model.fit(x, y, batch_size=9, epochs=1, shuffle=False, verbose=0)

    @ad.function
    @tf.function(jit_compile=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": model.get_weights(), "losses": losses, "loss": history.history["loss"]}
