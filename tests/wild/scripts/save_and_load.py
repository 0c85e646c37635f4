"""model.save after fit; load_model; fit goes on with the optimizer's slots; export for serving.

Kind: saving
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(70)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")
options = {"batch_size": 11, "epochs": 2, "shuffle": False, "verbose": 0}
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae"])
    model.fit(x, y, **options)
    model.save("model.keras")
    loaded = keras.models.load_model("model.keras")
    history = loaded.fit(x, y, **options)
    loaded.export("served", verbose=False)
    restored = tf.saved_model.load("served")
    served = restored.serve(x)
found = {
    "weights": loaded.get_weights(),
    "slots": [v.numpy() for v in loaded.optimizer.variables],
    "history": history.history,
    "served": served.numpy(),
}
