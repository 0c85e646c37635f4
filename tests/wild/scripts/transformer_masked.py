"""A small transformer with padding and causal masks, layer normalization, Dropout, label smoothing and a warm-up.

Kind: models
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(25)
words = rng.integers(1, 16, size=(26, 8))
words[np.arange(8)[None, :] >= rng.integers(3, 9, size=26)[:, None]] = 0


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        step = keras.ops.cast(step, "float32")
        return 0.02 * keras.ops.minimum((step + 1) / 4, keras.ops.rsqrt(step + 1))


with autodist.scope():
    inputs = keras.Input((8,), dtype="int32")
    x = keras.layers.Embedding(16, 8, mask_zero=True)(inputs)
    attended = keras.layers.MultiHeadAttention(2, 4, dropout=0.1, use_bias=False)(x, x, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dropout(0.1)(attended))
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(8)(keras.layers.Dense(16, "gelu")(x)))
    outputs = keras.layers.Dense(16, "softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(WarmUp(), beta_2=0.98),
        keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
        weighted_metrics=["accuracy"],
    )
    history = model.fit(words, np.eye(16)[np.roll(words, -1, 1)], batch_size=7, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
}
