"""The thesis' model: a step takes the longer one of the times of computation and synchronization."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.simulator._base import Simulator, chunked
from autodist.simulator._message_table import SERVER, Floats, ShardTable
from autodist.simulator.features import messages
from autodist.simulator.formulas._calibration import Calibration
from autodist.simulator.formulas._hosts_work import exchanged_s, waiting_s

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

_ROWS = 1 << 19


@final
@dataclass(frozen=True)
class AnalyticSimulator(Simulator):
    """T = max(T_comp, T_sync), with equations 8.2 and 8.3 (thesis 8.3.1).

    T_sync is the sum of the times of the busiest server's messages and of all collectives, which share the network.
    Phi is the time of a message besides that of its bytes: the latency of its link, if the spec lists it (``autodist
    doctor --probe --write-links`` measures it), and the work of processors.

    Attributes:
        calibration: phi, delta and other measured constants.
    """

    name: ClassVar[str] = "analytic"
    calibration: Calibration = field(default_factory=Calibration)

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        computation = np.float32(domain.compute_s * self.calibration.computation)
        parts = [
            np.maximum(
                computation + waiting_s(exchanged_s(part, domain, count), 0.0, part, domain, self.calibration),
                self._synchronization_s(part, domain, count),
            )
            + np.float32(self.calibration.step_s)
            for part, count in chunked(table, num_strategies, _ROWS)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _synchronization_s(self, table: ShardTable, domain: Domain, count: int) -> Floats:
        served = table.take(table.kind == SERVER)
        found = messages(table, domain)
        factors, waits_s, message_s = self.calibration.of_carriers(found)
        factors = np.where(found.is_served, np.float32(self.calibration.servers), factors)
        constants = found.overheads * message_s + np.where(found.is_served, 0, waits_s)
        constants += np.float32(self.calibration.copy_s) + found.gathers * np.float32(self.calibration.gather_s)
        seconds = found.transfer_s * factors + constants + found.latency_s
        hosts = len(domain.replicas)
        places = served.strategy * hosts + served.server
        by_server = np.bincount(places, seconds[found.is_served], count * hosts).reshape(count, hosts)
        grouped = ~found.is_served
        collective = np.bincount(found.strategy[grouped], seconds[grouped], count)
        total: Floats = (by_server.max(1) + collective).astype(np.float32)
        return total
