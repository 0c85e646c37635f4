"""StringLookup, Hashing, Discretization, Normalization and CategoryEncoding inside the model.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(43)
city, device = rng.choice(["Oslo", "Lima", "Pune"], 40), rng.choice(["phone", "desk", "tv", "car"], 40)
age, y = (rng.random((40, 1)) * 80).astype("float32"), rng.normal(size=(40, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(({"city": city[:, None], "device": device[:, None], "age": age}, y)).batch(9)
with autodist.scope():
    layers = keras.layers
    inputs = {
        "city": keras.Input((1,), dtype="string", name="city"),
        "device": keras.Input((1,), dtype="string", name="device"),
        "age": keras.Input((1,), name="age"),
    }
    lookup, scale = layers.StringLookup(output_mode="one_hot"), layers.Normalization()
    lookup.adapt(city)
    scale.adapt(age)
    hashed = layers.Flatten()(layers.Embedding(5, 3)(layers.Hashing(5)(inputs["device"])))
    bins = layers.CategoryEncoding(4, output_mode="one_hot")(layers.Discretization([20.0, 40.0, 60.0])(inputs["age"]))
    joined = layers.Concatenate()([lookup(inputs["city"]), hashed, bins, scale(inputs["age"])])
    model = keras.Model(inputs, layers.Dense(1)(layers.Dense(8, "relu")(joined)))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    history = model.fit(data, epochs=2, verbose=0)
found = {"weights": [w for w in model.get_weights() if w.dtype.kind == "f"], "loss": history.history["loss"]}
