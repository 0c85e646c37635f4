"""A loss that overflows in one batch: LossScaleOptimizer skips that step and halves its scale.

Kind: optimizers
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(73)
x, y = rng.normal(size=(48, 4)).astype("float32"), rng.normal(size=(48, 1)).astype("float32")
x[13] = 1e30
with autodist.scope():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1, use_bias=False), keras.layers.Dense(1)]
    )
    inner = keras.optimizers.Adam(0.01)
    model.compile(keras.optimizers.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=3), "mse")
    y[13] = 1e30
    model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in inner.variables],
    "scale": float(model.optimizer.dynamic_scale),
}
