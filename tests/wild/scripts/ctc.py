"""CTC over sequences of different lengths, as in speech recognition.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(5)
sounds = rng.normal(size=(21, 9, 4)).astype("float32")
texts = rng.integers(1, 5, size=(21, 3)).astype("int32")


def ctc(y_true, y_pred):
    rows = tf.shape(y_true)[0]
    lengths = tf.ones((rows,), tf.int32)
    losses = tf.nn.ctc_loss(
        tf.cast(y_true, tf.int32),
        y_pred,
        3 * lengths,
        tf.shape(y_pred)[1] * lengths,
        logits_time_major=False,
        blank_index=0,
    )
    return tf.reduce_mean(losses)


with autodist.scope():
    model = keras.Sequential(
        [keras.Input((9, 4)), keras.layers.Conv1D(8, 3, padding="same", activation="relu"), keras.layers.Dense(5)]
    )
    model.compile(keras.optimizers.Adam(0.01), ctc)
    history = model.fit(sounds, texts, batch_size=8, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
