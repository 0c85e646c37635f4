"""Common parts of the simulators that learn by the ranking loss (thesis 8.3.1)."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from autodist.errors import SimulatorError
from autodist.simulator._base import chunked
from autodist.simulator._measured import MeasuredStrategies
from autodist.simulator._message_table import Floats, Ints, ShardTable
from autodist.simulator.features import Encoding, encode
from autodist.simulator.learned._base import LearnedSimulator
from autodist.simulator.learned._ranking import pairs

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

_ROWS = 1 << 19
_MOST_PAIRS = 20_000


class Examples:
    """Measured strategies of several domains, encoded, with the pairs that are compared.

    Args:
        data: Data of one domain or of several, each of at least two strategies.
        penalty: sigma of the ranking loss, as a fraction of the median step of the domain.
        seed: Seed of the choice of pairs, where there are too many.

    Attributes:
        encodings: By domain.
        pairs: By domain, (slower, faster).
    """

    def __init__(self, data: Sequence[MeasuredStrategies], penalty: float, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.encodings: list[Encoding] = []
        self.pairs: list[Ints] = []
        for measured in data:
            self.encodings.append(encode(measured.table, measured.domain, len(measured)))
            sigma = penalty * float(np.median(measured.step_s)) if len(measured) else 0.0
            found = pairs(measured.step_s, measured.partitions, sigma)
            if len(found) > _MOST_PAIRS:
                found = found[chance.choice(len(found), _MOST_PAIRS, replace=False)]
            self.pairs.append(found)
        if not any(len(found) for found in self.pairs):
            raise SimulatorError(
                "there is nothing to learn from: no two measured strategies of one graph on one cluster differ",
                hint="measure more strategies by `autodist search`",
            )


class PairwiseSimulator(LearnedSimulator):
    """Learns which of two strategies is the slower one; its scores are not seconds.

    Args:
        penalty: sigma of the ranking loss, as a fraction of the median step: smaller differences count as ties.
        seed: Seed of everything that is drawn.
    """

    option_names: ClassVar[tuple[str, ...]] = ("penalty", "seed")

    def __init__(self, penalty: float = 0.01, seed: int = 0) -> None:
        super().__init__(seed)
        self.penalty = penalty

    def fit(self, data: Sequence[MeasuredStrategies]) -> None:
        """Learn from pairs of strategies of one domain."""
        self._fit(Examples(data, self.penalty, self.seed))

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """A number that grows with the time of a step; shape (strategies,)."""
        parts = [self._score(encode(part, domain, count)) for part, count in chunked(table, num_strategies, _ROWS)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    @abc.abstractmethod
    def _fit(self, examples: Examples) -> None:
        """Learn."""

    @abc.abstractmethod
    def _score(self, encoding: Encoding) -> Floats:
        """The scores of some strategies."""
