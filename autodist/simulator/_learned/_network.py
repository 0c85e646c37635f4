"""What the simulators that are neural networks share: training by the ranking loss, and their weights in files."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from autodist.errors import SimulatorError
from autodist.simulator._learned._base import Examples, LearnedSimulator
from autodist.simulator._learned._encoding import PREDEFINED, RAW, Encoding

if TYPE_CHECKING:
    from autodist.simulator._table import Floats

__all__ = ["NetworkSimulator"]

_BATCH = 64
_SCORED_AT_ONCE = 256


class NetworkSimulator(LearnedSimulator):
    """A Keras model from the features of all variables to one number.

    Args:
        penalty: sigma of the ranking loss, as a share of the median step.
        seed: Of weights and batches.
        steps: Updates of the weights in one call of :meth:`fit`.
        features: Which features of variables are used: both kinds, or one of them (thesis table 8.3).

    """

    learning_rate: ClassVar[float] = 3e-3

    def __init__(self, penalty: float = 0.01, seed: int = 0, steps: int = 600, features: str = "both") -> None:
        super().__init__(penalty, seed)
        self.steps = steps
        self.features = features
        self._model: Any = None
        self._mean: Floats = np.zeros(len(RAW) + len(PREDEFINED), np.float32)
        self._scale: Floats = np.ones(len(RAW) + len(PREDEFINED), np.float32)

    @abc.abstractmethod
    def _network(self, num_features: int) -> Any:
        """The untrained model: from (strategies, variables, features) to (strategies, 1)."""

    def _fit(self, examples: Examples) -> None:
        import keras
        import tensorflow as tf

        if self._model is None:
            keras.utils.set_random_seed(self.seed)
            cells = np.concatenate([e.variables.reshape(-1, e.variables.shape[2]) for e in examples.encodings])
            self._mean, self._scale = cells.mean(0), cells.std(0) + 1e-3
            self._model = self._network(len(self._columns))
        model, chance = self._model, np.random.default_rng(self.seed)
        schedule = keras.optimizers.schedules.CosineDecay(self.learning_rate, self.steps)
        optimizer = keras.optimizers.Adam(schedule, global_clipnorm=1.0)
        optimizer.build(model.trainable_variables)

        @tf.function(reduce_retracing=True)
        def update(x: Any, slower: Any) -> Any:
            with tf.GradientTape() as tape:
                scores = model(x, training=True)[:, 0]
                gaps = scores[None, :] - scores[:, None]  # f_j - f_i at (i, j)
                loss = tf.reduce_sum(slower * tf.nn.softplus(gaps)) / tf.maximum(tf.reduce_sum(slower), 1.0)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        inputs = [self._input(encoding) for encoding in examples.encodings]
        matrices = [_matrix(p, len(x)) for p, x in zip(examples.pairs, inputs, strict=True)]
        weights = np.array([len(x) if len(p) else 0 for x, p in zip(inputs, examples.pairs, strict=True)], float)
        for _ in range(self.steps):
            domain = chance.choice(len(inputs), p=weights / weights.sum())
            rows = chance.permutation(len(inputs[domain]))[:_BATCH]
            update(inputs[domain][rows], matrices[domain][np.ix_(rows, rows)])

    @property
    def _columns(self) -> list[int]:
        raw, predefined = range(len(RAW)), range(len(RAW), len(RAW) + len(PREDEFINED))
        return {"both": [*raw, *predefined], "raw": [*raw], "predefined": [*predefined]}[self.features]

    def _input(self, encoding: Encoding) -> Floats:
        normalized: Floats = ((encoding.variables - self._mean) / self._scale)[:, :, self._columns]
        return normalized.astype(np.float32)

    def _score(self, encoding: Encoding) -> Floats:
        if self._model is None:
            raise SimulatorError("this simulator has not learned anything", hint="call `fit` first")
        x = self._input(encoding)
        parts = [
            self._model(x[begin : begin + _SCORED_AT_ONCE]).numpy()[:, 0] for begin in range(0, len(x), _SCORED_AT_ONCE)
        ]
        return np.concatenate(parts)


def _matrix(pairs: Any, count: int) -> Floats:
    """1 at (slower, faster), else 0."""
    matrix = np.zeros((count, count), np.float32)
    matrix[pairs[:, 0], pairs[:, 1]] = 1
    return matrix
