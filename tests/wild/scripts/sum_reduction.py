"""Losses that are sums over the batch, with weights between outputs.

Kind: losses
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(14)
x = rng.normal(size=(33, 6)).astype("float32")
amount, kind = x.sum(1, keepdims=True), (x[:, :3].argmax(1)).astype("int32")
with autodist.scope():
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8, "relu", kernel_regularizer="l2")(inputs)
    outputs = {"amount": keras.layers.Dense(1)(hidden), "kind": keras.layers.Dense(3)(hidden)}
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.005, momentum=0.9),
        {
            "amount": keras.losses.Huber(reduction="sum"),
            "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        },
        loss_weights={"amount": 1.0, "kind": 0.3},
        metrics={"kind": ["accuracy"]},
    )
    history = model.fit(x, {"amount": amount, "kind": kind}, batch_size=10, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
}
