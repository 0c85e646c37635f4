"""Texts in folders next to the script, TextVectorization in the model, an LSTM; without a function `main`."""

from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

import autodist

REVIEWS = Path(__file__).parent / "texts"

with autodist.scope():
    read = {"directory": REVIEWS, "batch_size": 32, "seed": 1, "validation_split": 0.2, "verbose": False}
    train = keras.utils.text_dataset_from_directory(subset="training", **read)
    valid = keras.utils.text_dataset_from_directory(subset="validation", **read)
    vectorize = layers.TextVectorization(max_tokens=2000, output_sequence_length=40)
    vectorize.adapt(train.map(lambda text, label: text))
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="string"),
            vectorize,
            layers.Embedding(2000, 16, mask_zero=True),
            layers.Bidirectional(layers.LSTM(8)),
            layers.Dropout(0.2),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("rmsprop", "binary_crossentropy", metrics=["accuracy"])
    model.fit(train, validation_data=valid, epochs=3, verbose=2)
    print("predicted", model.predict(tf.constant([["a wonderful film"], ["a dull film"]]), verbose=0).ravel())
    model.save("result.keras")
