"""ModelCheckpoint, CSVLogger, TensorBoard and LambdaCallback; the best file is loaded again at the end.

Kind: callbacks
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(67)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.integers(0, 2, 40)
epochs = []
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "relu"), keras.layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Nadam(0.05), "binary_crossentropy", metrics=["accuracy"])
    callbacks = [
        keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
        keras.callbacks.ModelCheckpoint("epoch{epoch:02d}.weights.h5", save_weights_only=True),
        keras.callbacks.CSVLogger("log.csv"),
        keras.callbacks.TensorBoard("board"),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(logs["loss"])),
    ]
    model.fit(x, y, batch_size=9, epochs=3, validation_split=0.25, shuffle=False, verbose=0, callbacks=callbacks)
    best = keras.models.load_model("best.keras")
    first = keras.models.clone_model(model)
    first.load_weights("epoch01.weights.h5")
found = {"weights": model.get_weights(), "best": best.get_weights(), "first": first.get_weights(), "epochs": epochs}
