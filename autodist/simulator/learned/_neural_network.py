"""Common parts of the simulators that are neural networks: training by the ranking loss, and their weights in files."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from autodist.simulator.features import PREDEFINED, RAW, Encoding, encode
from autodist.simulator.learned._base import Arrays
from autodist.simulator.learned._pairwise import Examples, PairwiseSimulator
from autodist.simulator.learned._scaling import Scaling

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.simulator._message_table import Bools, Floats, ShardTable

_BATCH = 64
_SCORED_AT_ONCE = 256


class NetworkSimulator(PairwiseSimulator):
    """A Keras model from the features of all variables to one number.

    Args:
        penalty: sigma of the ranking loss, as a fraction of the median step.
        seed: Seed of weights and batches.
        steps: Updates of the weights in one call of :meth:`fit`.
        features: Which features of variables are used: both kinds, or one of them (thesis table 8.3).
    """

    learning_rate: ClassVar[float] = 3e-3
    option_names: ClassVar[tuple[str, ...]] = ("penalty", "seed", "steps", "features")

    def __init__(self, penalty: float = 0.01, seed: int = 0, steps: int = 600, features: str = "both") -> None:
        super().__init__(penalty, seed)
        self.steps = steps
        self.features = features
        self._model: Any = None
        self._graph: Any = None
        self._scaling: Scaling | None = None

    @abc.abstractmethod
    def _network(self, num_features: int) -> Any:
        """The untrained model: from (strategies, variables, features) to (strategies, 1)."""

    def _apply(self, model: Any, x: Any, neighbours: Any, *, training: bool) -> Any:
        """The scores of strategies by their variables' features, shape (strategies, 1)."""
        return model(x, training=training)

    @property
    def learned(self) -> Arrays:
        """The network's weights, and how features are scaled."""
        if self._model is None or self._scaling is None:
            return {}
        weights = {f"weight_{number}": value for number, value in enumerate(self._model.get_weights())}
        return {**weights, **self._scaling.arrays}

    def recall(self, learned: Arrays) -> None:
        """Take the weights."""
        self._scaling = Scaling.recalled(learned)
        self._model = self._network(self._columns.stop - self._columns.start)
        count = sum(name.startswith("weight_") for name in learned)
        self._model.set_weights([learned[f"weight_{number}"] for number in range(count)])

    def _fit(self, examples: Examples) -> None:
        import keras
        import tensorflow as tf

        cells = np.concatenate([e.variables.reshape(-1, e.variables.shape[2]) for e in examples.encodings])
        self._scaling = Scaling.of(cells) if self._scaling is None else self._scaling.widened(cells)
        if self._model is None:
            keras.utils.set_random_seed(self.seed)
            self._model = self._network(self._columns.stop - self._columns.start)
        model, chance = self._model, np.random.default_rng(self.seed)
        schedule = keras.optimizers.schedules.CosineDecay(self.learning_rate, self.steps)
        optimizer = keras.optimizers.Adam(schedule, global_clipnorm=1.0)
        optimizer.build(model.trainable_variables)

        @tf.function(reduce_retracing=True)
        def update(x: Any, neighbours: Any, slower: Any) -> Any:
            with tf.GradientTape() as tape:
                scores = self._apply(model, x, neighbours, training=True)[:, 0]
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
            neighbours = examples.encodings[domain].neighbours
            update(inputs[domain][rows], neighbours, matrices[domain][np.ix_(rows, rows)])

    @property
    def _columns(self) -> slice:
        raw, whole = len(RAW), len(RAW) + len(PREDEFINED)
        return {"both": slice(0, whole), "raw": slice(0, raw), "predefined": slice(raw, whole)}[self.features]

    def _input(self, encoding: Encoding) -> Floats:
        assert self._scaling is not None
        return self._scaling.apply(encoding.variables)[:, :, self._columns]

    def represent(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """The network's last hidden outputs; shape (strategies, outputs)."""
        import keras

        self.require_learned()
        encoding = encode(table, domain, num_strategies)
        hidden = keras.Model(self._model.input, self._model.layers[-1].input)
        found: Floats = self._apply(hidden, self._input(encoding), encoding.neighbours, training=False).numpy()
        return found

    def _score(self, encoding: Encoding) -> Floats:
        self.require_learned()
        x = self._input(encoding)
        compiled = self._compiled(x.shape[1:], encoding.neighbours)
        parts = [compiled(x[begin : begin + _SCORED_AT_ONCE]) for begin in range(0, len(x), _SCORED_AT_ONCE)]
        return np.concatenate([part.numpy()[:, 0] for part in parts])

    def _compiled(self, shape: tuple[int, ...], neighbours: Bools) -> Any:
        """The network as a graph, for strategies of one domain; eager execution would take ten times as long."""
        import tensorflow as tf

        model, what_for = self._model, (shape, neighbours.tobytes())
        if self._graph is None or self._graph[0] is not model or self._graph[1] != what_for:

            @tf.function(input_signature=[tf.TensorSpec((None, *shape), tf.float32)])
            def score(x: Any) -> Any:
                return self._apply(model, x, neighbours, training=False)

            self._graph = model, what_for, score
        return self._graph[2]


def _matrix(pairs: Any, count: int) -> Floats:
    """1 at (slower, faster), else 0."""
    matrix = np.zeros((count, count), np.float32)
    matrix[pairs[:, 0], pairs[:, 1]] = 1
    return matrix
