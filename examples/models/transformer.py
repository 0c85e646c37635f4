"""The Transformer (Vaswani et al., 2017) for translation; source, target and prediction share one table."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._attention import Embeddings, decoder_layer, encoder_layer
from ._base import Workload, from_loss, sizes

__all__ = ["WORKLOADS"]


class _InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """The paper's schedule: a linear warm-up, then the inverse square root of the step."""

    def __init__(self, width, warm_up):
        self.width, self.warm_up = width, warm_up

    def __call__(self, step):
        step = tf.cast(step, tf.float32) + 1.0
        return self.width**-0.5 * tf.minimum(step**-0.5, step * self.warm_up**-1.5)

    def get_config(self):
        return {"width": self.width, "warm_up": self.warm_up}


def make(num_layers, width, heads, vocabulary, length, batch_size):
    """Encoders and decoders, as many of each as `num_layers`."""
    embeddings = Embeddings(vocabulary, length, width, name="embeddings")
    source = keras.Input((length,), dtype="int32", name="source")
    target = keras.Input((length,), dtype="int32", name="target")
    memory, x = embeddings(source), embeddings(target)
    for number in range(num_layers):
        memory = encoder_layer(memory, width, heads, f"encoder_{number}")
    for number in range(num_layers):
        x = decoder_layer(x, memory, width, heads, f"decoder_{number}")
    model = keras.Model([source, target], x)

    def loss_of(source, target):
        hidden = model([source, target[:, :-1]], training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target[:, 1:], embeddings.logits(hidden)))

    optimizer = keras.optimizers.Adam(_InverseSquareRoot(width, 100.0), beta_2=0.98, epsilon=1e-9)
    batch = partial(_batch, vocabulary, length, batch_size)
    return from_loss(loss_of, model.trainable_variables, optimizer, batch)


def _batch(vocabulary, length, batch_size, number):
    random = np.random.default_rng(number)
    source = random.integers(vocabulary, size=(batch_size, length)).astype(np.int32)
    target = np.concatenate([np.zeros((batch_size, 1), np.int32), (source + 1) % vocabulary], axis=1)
    return source, target.astype(np.int32)


WORKLOADS = (
    Workload(
        "transformer",
        "the Transformer's base model: one table for source, target and prediction",
        sizes(
            "num_layers width heads vocabulary length batch_size",
            tiny=(1, 8, 2, 40, 7, 12),
            small=(2, 128, 4, 4000, 24, 16),
            full=(6, 512, 8, 33708, 64, 80),
        ),
        make,
    ),
)
