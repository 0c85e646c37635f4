"""A forest of randomized trees on top of the event simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from autodist.errors import SimulatorError
from autodist.simulator._base import chunked
from autodist.simulator._message_table import Floats, ShardTable
from autodist.simulator.formulas import Calibration, EventSimulator, calibrated
from autodist.simulator.learned._base import Arrays, LearnedSimulator
from autodist.simulator.learned._summed_features import summarize

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.simulator._measured import MeasuredStrategies

_ROWS = 1 << 16
_TREES = 200


@final
class ForestSimulator(LearnedSimulator):
    """Learns the factor of the event simulation's error; its scores are seconds.

    First the constants of the event simulation are fitted to measurements, then extremely randomized trees (Geurts,
    Ernst and Wehenkel 2006) learn the logarithm of the remaining factor from features of the whole strategy. It is not
    from the thesis: with a hundred trials it ranks better than the thesis' networks (`autodist simulator eval`).
    """

    name: ClassVar[str] = "forest"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._events = EventSimulator()
        self._rows = np.zeros((0, 0), np.float32)
        self._factors = np.zeros(0, np.float32)
        self._trees: Any = None

    @property
    def learned(self) -> Arrays:
        """The data from which the trees were grown, and the constants."""
        if self._trees is None:
            return {}
        constants = np.array(astuple(self._events.calibration))
        return {"rows": self._rows, "factors": self._factors, "constants": constants}

    def recall(self, learned: Arrays) -> None:
        """Grow the same trees again."""
        self._events = EventSimulator(Calibration(*learned["constants"].tolist()))
        self._rows, self._factors = learned["rows"], learned["factors"]
        self._grow()

    def fit(self, data: Sequence[MeasuredStrategies]) -> None:
        """Fit the constants to these strategies, and grow trees from what they leave unexplained.

        What was learned before stays: its constants, and the data from which its trees were grown.
        """
        data = [measured for measured in data if len(measured) > 1]
        if not data:
            raise SimulatorError(
                "there is nothing to learn from: no two strategies of one graph on one cluster are measured",
                hint="measure more strategies by `autodist search`",
            )
        if not len(self._rows):
            self._events = calibrated(EventSimulator(), data)
        rows = [summarize(measured.table, measured.domain, len(measured), self._events) for measured in data]
        factors = [self._left(measured) for measured in data]
        if len(self._rows):
            rows, factors = [self._rows, *rows], [self._factors, *factors]
        self._rows, self._factors = np.concatenate(rows), np.concatenate(factors)
        self._grow()

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        self.require_learned()
        parts = [self._score(part, domain, count) for part, count in chunked(table, num_strategies, _ROWS)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _score(self, table: ShardTable, domain: Domain, count: int) -> Floats:
        left = self._trees.predict(summarize(table, domain, count, self._events))
        scores: Floats = self._events.score(table, domain, count) * np.exp(left, dtype=np.float32)
        return scores

    def _left(self, measured: MeasuredStrategies) -> Floats:
        """The logarithms of the factors that the event simulation leaves, less their mean: only ranks count."""
        said = self._events.score(measured.table, measured.domain, len(measured))
        left: Floats = np.log(measured.step_s) - np.log(np.maximum(said, 1e-9))
        left -= left.mean()
        return left

    def _grow(self) -> None:
        from sklearn.ensemble import ExtraTreesRegressor

        trees = ExtraTreesRegressor(_TREES, min_samples_leaf=2, max_features=0.5, random_state=self.seed)
        self._trees = trees.fit(self._rows, self._factors)
