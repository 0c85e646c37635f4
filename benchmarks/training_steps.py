"""Training steps to trace: of any classifier, of a transformer with as many layers as wanted, of the example models."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import tensorflow as tf
from measuring import ROOT

from autodist.graph import TrainingGraph, VariableNames, capture

__all__ = ["TOKENS", "example_graph", "training_step", "transformer"]

TOKENS = 32
"""In each example of the transformer's."""
_VOCABULARY, _HIDDEN, _HEADS = 30522, 256, 4


def training_step(model: Any) -> Callable[[Any, Any], Any]:
    """A function of inputs and integer labels that trains a classifier by Adam."""
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def transformer(layers: int) -> Any:
    """A classifier of tokens; 24 layers make the graph of BERT-large, but narrow."""
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


@cache
def example_graph(name: str) -> TrainingGraph:
    """The graph of a model of `examples/models` in its small size."""
    sys.path.insert(0, str(ROOT / "examples"))
    import models

    training = models.get(name).build("small", seed=0)
    batch = training.batch(0)
    graph = capture(training.step, [tf.TensorSpec(a.shape, a.dtype) for a in batch], VariableNames()).graph
    return dataclasses.replace(graph, batch_size=len(batch[0]))
