"""The training step of a transformer with as many layers as wanted: graphs of all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

__all__ = ["TOKENS", "training_step"]

TOKENS = 32
"""In each example."""
_VOCABULARY, _HIDDEN, _HEADS = 30522, 256, 4


def training_step(layers: int) -> Callable[[Any, Any], Any]:
    """A function of tokens and labels that trains by Adam; 24 layers make the graph of BERT-large, but narrow."""
    model = _transformer(layers)
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(tokens: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(tokens, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def _transformer(layers: int) -> Any:
    tokens = keras.Input((TOKENS,), dtype="int32")
    hidden = keras.layers.Embedding(_VOCABULARY, _HIDDEN)(tokens)
    for _ in range(layers):
        hidden = _transformer_layer(hidden)
    return keras.Model(tokens, keras.layers.Dense(2)(hidden[:, 0]))


def _transformer_layer(hidden: Any) -> Any:
    attended = keras.layers.MultiHeadAttention(_HEADS, _HIDDEN // _HEADS, dropout=0.1)(hidden, hidden)
    hidden = keras.layers.LayerNormalization()(hidden + keras.layers.Dropout(0.1)(attended))
    inner = keras.layers.Dense(4 * _HIDDEN, activation="gelu")(hidden)
    inner = keras.layers.Dropout(0.1)(keras.layers.Dense(_HIDDEN)(inner))
    return keras.layers.LayerNormalization()(hidden + inner)
