"""Layers of transformers, for BERT and the translation model."""

from keras import layers, ops

__all__ = ["Embeddings", "decoder_layer", "encoder_layer"]


class Embeddings(layers.Layer):
    """Sum of the embeddings of tokens and of their positions; `logits` multiplies with the same table."""

    def __init__(self, vocabulary, length, width, **options):
        super().__init__(**options)
        self.tokens = layers.Embedding(vocabulary, width, name="tokens")
        self.positions = layers.Embedding(length, width, name="positions")

    def build(self, input_shape):
        self.tokens.build(input_shape)
        self.positions.build(input_shape)

    def call(self, ids):
        return self.tokens(ids) + self.positions(ops.arange(ids.shape[-1]))

    def logits(self, hidden):
        """Scores of all tokens, by the table of the inputs."""
        return ops.matmul(hidden, ops.transpose(self.tokens.embeddings))


def encoder_layer(x, width, heads, name):
    """Attention over the whole sequence, then two dense layers; normalized after each as in BERT."""
    attended = _attention(width, heads, f"{name}_attention")(x, x)
    x = layers.LayerNormalization(name=f"{name}_norm")(x + attended)
    return _feed_forward(x, width, name)


def decoder_layer(x, memory, width, heads, name):
    """Attention over what comes before, then over the source, then two dense layers."""
    attended = _attention(width, heads, f"{name}_self")(x, x, use_causal_mask=True)
    x = layers.LayerNormalization(name=f"{name}_self_norm")(x + attended)
    attended = _attention(width, heads, f"{name}_source")(x, memory)
    x = layers.LayerNormalization(name=f"{name}_source_norm")(x + attended)
    return _feed_forward(x, width, name)


def _attention(width, heads, name):
    # Without biases: that of the keys cancels out in the softmax, so its gradient is round-off, which Adam blows up.
    return layers.MultiHeadAttention(heads, width // heads, use_bias=False, name=name)


def _feed_forward(x, width, name):
    hidden = layers.Dense(4 * width, activation="gelu", name=f"{name}_wide")(x)
    hidden = layers.Dense(width, name=f"{name}_narrow")(hidden)
    return layers.LayerNormalization(name=f"{name}_out_norm")(x + hidden)
