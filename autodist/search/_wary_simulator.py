"""A simulator that adds a penalty, which others lack, for strategies with several ways of communication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from autodist.simulator import SERVER, Domain, Floats, ShardTable, Simulator

_SEVERAL_WAYS = 0.1
"""The fraction by which steps are assumed to be longer with servers next to collectives: simulators don't know the
cost of two systems that share the processors."""


@final
@dataclass(frozen=True)
class WarySimulator(Simulator):
    """A simulator that does not trust strategies with several ways of communication: servers next to collectives.

    AutoDist's own library carries both in one way.
    """

    name: ClassVar[str] = "wary"
    simulator: Simulator

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        served, collected = (
            np.bincount(table.strategy[rows], minlength=num_strategies) > 0
            for rows in ((table.kind == SERVER) & ~table.has_own_connections, table.kind != SERVER)
        )
        return self.simulator.score(table, domain, num_strategies) * np.where(
            served & collected, np.float32(1 + _SEVERAL_WAYS), np.float32(1)
        )
