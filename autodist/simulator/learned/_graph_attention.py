"""The simulator that uses the graph: attention between variables that follow each other in the dataflow."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, final

from autodist.simulator.learned._neural_network import NetworkSimulator

_WIDTH = 16
_HEADS = 2


@final
class GraphAttentionSimulator(NetworkSimulator):
    """Two layers of graph attention over the pruned graph, the mean over its variables, and a perceptron.

    Thesis 8.3.1; the layers are those of Velickovic et al., Graph Attention Networks (2018), equations 1 to 5.
    """

    name: ClassVar[str] = "gat"

    def _network(self, num_features: int) -> Any:
        import keras
        from keras import layers

        attention = _layer()
        x, neighbours = keras.Input((None, num_features)), keras.Input((None, None), dtype="bool")
        z = attention(_WIDTH, _HEADS)([x, neighbours])
        z = attention(_WIDTH, _HEADS)([z, neighbours])
        z = layers.GlobalAveragePooling1D()(layers.Concatenate()([x, z]))
        f = layers.Dense(2 * _WIDTH, activation="relu")(z)
        return keras.Model([x, neighbours], layers.Dense(1, use_bias=False)(f))

    def _apply(self, model: Any, x: Any, neighbours: Any, *, training: bool) -> Any:
        import tensorflow as tf

        edges = tf.broadcast_to(neighbours, (tf.shape(x)[0], *neighbours.shape))
        return model([tf.convert_to_tensor(x), edges], training=training)


@cache
def _layer() -> Any:
    """The class of the layers: made at first use, since Keras takes seconds to import."""
    import keras
    from keras import ops

    class GraphAttention(keras.layers.Layer):
        """Each node's new features are a mean of its neighbours', weighted by how much it attends to each."""

        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.width = width
            self.heads = heads

        def build(self, shapes: Any) -> None:
            self.kernel = self.add_weight(shape=(shapes[0][-1], self.heads, self.width), name="kernel")
            self.asks = self.add_weight(shape=(self.heads, self.width), name="asks")
            self.answers = self.add_weight(shape=(self.heads, self.width), name="answers")

        def call(self, inputs: Any) -> Any:
            x, neighbours = inputs
            h = ops.einsum("svf,fhw->shvw", x, self.kernel)
            asks, answers = (ops.einsum("shvw,hw->shv", h, weights) for weights in (self.asks, self.answers))
            logits = ops.leaky_relu(asks[..., :, None] + answers[..., None, :], 0.2)
            logits = ops.where(neighbours[:, None], logits, -1e9)
            mixed = ops.einsum("shvu,shuw->svhw", ops.softmax(logits), h)
            shape = ops.shape(x)
            return ops.elu(ops.reshape(mixed, (shape[0], shape[1], self.heads * self.width)))

        def compute_output_shape(self, shapes: Any) -> Any:
            return (*shapes[0][:-1], self.heads * self.width)

    return GraphAttention
