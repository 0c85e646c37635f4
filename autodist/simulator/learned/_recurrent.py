"""The recurrent simulator, the thesis' default."""

from __future__ import annotations

from typing import Any, ClassVar, final

from autodist.simulator.learned._neural_network import NetworkSimulator

_WIDTH = 32


@final
class RecurrentSimulator(NetworkSimulator):
    """A multi-layer perceptron of each variable, a bidirectional LSTM over the variables, and another perceptron.

    The LSTM goes over the variables in the order of the backward pass, and back (thesis 8.3.1, figure 8.1).
    """

    name: ClassVar[str] = "rnn"

    def _network(self, num_features: int) -> Any:
        import keras
        from keras import layers

        x = keras.Input((None, num_features))
        z = layers.Dense(_WIDTH, activation="relu")(x)
        z = layers.Dense(_WIDTH, activation="relu")(z)
        h = layers.Bidirectional(layers.LSTM(_WIDTH))(z)
        f = layers.Dense(_WIDTH, activation="relu")(h)
        return keras.Model(x, layers.Dense(1, use_bias=False)(f))
