"""A simulator without predictions, for comparison with searches that use one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.simulator._base import Simulator
from autodist.simulator._message_table import Floats, ShardTable

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain


@final
class IndifferentSimulator(Simulator):
    """Gives all strategies the same score, so that only their differences decide which are measured.

    AutoSync (-s) of thesis 8.4.1.
    """

    name: ClassVar[str] = "none"

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Zeros; shape (strategies,)."""
        return np.zeros(num_strategies, np.float32)
