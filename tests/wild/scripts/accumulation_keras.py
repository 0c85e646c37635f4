"""Keras' own accumulation of gradients, with clipping and a moving average of weights.

Kind: optimizers
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(52)
x, y = rng.normal(size=(50, 5)).astype("float32"), rng.normal(size=(50, 1)).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(
        0.02, gradient_accumulation_steps=2, global_clipnorm=0.4, use_ema=True, ema_momentum=0.8
    )
    model.compile(optimizer, "mse")
    history = model.fit(x, y, batch_size=11, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in optimizer.variables],
    "loss": history.history["loss"],
}
