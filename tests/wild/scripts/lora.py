"""Fine-tuning by LoRA: the layers' kernels are frozen, small factors are trained.

Kind: models
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(27)
x, y = rng.integers(0, 12, size=(30, 4)), rng.normal(size=(30, 2)).astype("float32")
with autodist.scope():
    embedding, dense = keras.layers.Embedding(12, 6), keras.layers.Dense(8, "tanh")
    model = keras.Sequential(
        [keras.Input((4,), dtype="int32"), embedding, keras.layers.Flatten(), dense, keras.layers.Dense(2)]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    dense.enable_lora(2)
    embedding.enable_lora(2)
    model.compile(keras.optimizers.Adam(0.02), "mse")
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    predictions = model.predict(x, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
    "predictions": predictions,
}
