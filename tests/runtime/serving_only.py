"""A training script whose strategy leaves a worker without replica; it serves some of the variables."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

import autodist
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, StrategyBuilder, VariableConfig


@dataclass(frozen=True)
class LastOnlyServes(StrategyBuilder):
    """The last host only serves."""

    name: ClassVar[str] = "LastOnlyServes"

    def build(self, graph, spec):
        replicas = tuple(device.name for device in spec.replicas if device.host != spec.hosts[-1].name)
        homes = [host.cpu_devices[-1].name for host in spec.hosts]
        configs = (
            VariableConfig.whole(v.name, PSSynchronizer(homes[k % len(homes)], local_proxy=not v.is_sparse))
            for k, v in enumerate(graph.trainable)
        )
        return Strategy(GraphConfig(replicas or spec.replicas[:1], "tcp"), tuple(configs))


def main():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05, epsilon=1e-2), loss="mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(22, 4)).astype(np.float32)
    with autodist.scope(strategy=LastOnlyServes()):
        model.fit(x, x[:, :1] * 2 + 1, batch_size=8, epochs=2, shuffle=False, verbose=0)
        rows = np.repeat(x, 500, 0)  # all hosts have parts of arrays, those that only serve in training as well
        found = autodist.function(lambda rows: tf.reduce_mean((rows[1:] - rows[:-1]) ** 2, 0), arrays=True)(rows)
    np.testing.assert_allclose(found, np.mean((rows[1:] - rows[:-1]) ** 2, 0), rtol=1e-4)
    assert tf.executing_eagerly()


if __name__ == "__main__":
    main()
