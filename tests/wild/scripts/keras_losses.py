"""Many of Keras' losses and optimizers, with their options: moving averages, accumulation, clipping, decay.

Kind: optimizers
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(215)
x = rng.normal(size=(46, 6)).astype("float32")
y = rng.uniform(0.05, 0.95, size=(46, 2)).astype("float32")
of_keras = keras.optimizers
LOSSES = ("mape", "msle", "log_cosh", "cosine_similarity", "poisson", "tversky", "dice", "kl_divergence")
OPTIMIZERS = (
    lambda: of_keras.Lamb(0.05),
    lambda: of_keras.Lion(0.005),
    lambda: of_keras.Adafactor(0.05),
    lambda: of_keras.Adam(0.02, amsgrad=True, clipnorm=0.1),
    lambda: of_keras.SGD(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    lambda: of_keras.AdamW(0.02, gradient_accumulation_steps=2),
    lambda: of_keras.Adam(0.02, global_clipnorm=0.2, weight_decay=0.01),
    lambda: of_keras.Nadam(0.01, loss_scale_factor=64.0),
)
found = {}
with autodist.scope():
    for name, make in zip(LOSSES, OPTIMIZERS):
        optimizer = make()
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2, "sigmoid")])
        model.compile(optimizer, name, metrics=["mae"])
        history = model.fit(x, y, batch_size=9, epochs=2, shuffle=False, verbose=0)
        found[name] = [model.get_weights(), [np.asarray(v) for v in optimizer.variables], history.history]
