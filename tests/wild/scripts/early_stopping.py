"""EarlyStopping with restored weights and ReduceLROnPlateau, which follow the validation.

Kind: callbacks
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(66)
x, y = rng.normal(size=(60, 4)).astype("float32"), rng.normal(size=(60, 1)).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    callbacks = [
        keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3, min_delta=0.01),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    history = model.fit(
        x, y, batch_size=13, epochs=12, validation_split=0.4, shuffle=False, verbose=0, callbacks=callbacks
    )
found = {"weights": model.get_weights(), "history": history.history, "rate": float(model.optimizer.learning_rate)}
