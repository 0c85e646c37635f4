"""TextVectorization, adapted before training, in the input pipeline.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(44)
texts = [" ".join(rng.choice(["red", "green", "blue", "dog", "cat"], n)) for n in rng.integers(2, 7, size=31)]
labels = np.array(["dog" in t for t in texts], "float32")
vectorize = keras.layers.TextVectorization(max_tokens=10, output_sequence_length=6)
vectorize.adapt(texts)
data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8).map(lambda text, y: (vectorize(text), y))
with autodist.scope():
    model = keras.Sequential(
        [keras.layers.Embedding(10, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    )
    model.compile(
        keras.optimizers.RMSprop(0.05), keras.losses.BinaryCrossentropy(from_logits=True), metrics=["binary_accuracy"]
    )
    history = model.fit(data, epochs=2, verbose=0)
found = {"weights": model.get_weights(), "history": history.history}
