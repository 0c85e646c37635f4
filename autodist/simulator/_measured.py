"""Data that simulators learn from: strategies with the times that they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._message_table import Floats, Ints, ShardTable, tabulate

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.strategies import Strategy


@dataclass(frozen=True)
class MeasuredStrategies:
    """Strategies of one domain, measured.

    Attributes:
        domain: The domain that they are for.
        table: Their shards.
        step_s: Seconds per step of each.
    """

    domain: Domain
    table: ShardTable
    step_s: Floats

    @classmethod
    def of(cls, domain: Domain, strategies: Sequence[Strategy], step_s: Sequence[float]) -> MeasuredStrategies:
        """The measurements of strategies."""
        return cls(domain, tabulate(strategies, domain), np.asarray(step_s, np.float32))

    def __len__(self) -> int:
        return len(self.step_s)

    @property
    def partitions(self) -> Ints:
        """P of the ranking loss: the total number of shards of each strategy's variables."""
        return np.bincount(self.table.strategy, minlength=len(self)).astype(np.int32)

    def take(self, strategies: Ints) -> MeasuredStrategies:
        """Some of the strategies, in this order, each once."""
        begins = np.searchsorted(self.table.strategy, np.arange(len(self) + 1))
        lengths = np.diff(begins)[strategies]
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths - begins[:-1][strategies], lengths)
        part = self.table.take(rows)
        numbers = np.repeat(np.arange(len(strategies), dtype=np.int32), lengths)
        return MeasuredStrategies(self.domain, part.replaced(strategy=numbers), self.step_s[strategies])
