"""Strategies that fit into the memory of the hosts, as far as the spec says how much they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.errors import SpaceEmpty
from autodist.search.searchers import Score, ScoredProposals
from autodist.search.space import Proposals
from autodist.simulator import Floats, ShardTable, Simulator, peak_needs, tabulate

if TYPE_CHECKING:
    from autodist.simulator import Domain
    from autodist.strategies import Strategy

_TOO_LARGE = np.float32(1e12)
"""A score above those of all simulators."""


class MemoryFilter:
    """The memory of the hosts of a domain.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import Host, ResourceSpec
        >>> from autodist.simulator import Domain
        >>> from autodist.strategies import AllReduce, PS
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> m = Variable("m", "m", (1000, 250), "float32", Role.SLOT, owners=("w",))
        >>> spec = ResourceSpec((Host("a", "a"), Host("b", "b", memory_gb=0.003)))
        >>> graph = TrainingGraph(None, (w, m), (), (), ())
        >>> room = MemoryFilter(Domain.of(graph, spec))
        >>> room.why_not(AllReduce(communicator="collective").build(graph, spec))
        'it needs 0.006 GB on `b`, whose `memory_gb` is 0.003'
        >>> room.why_not(PS().build(graph, spec))
        ''
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._is_bounded = bool(np.isfinite(domain.memory_bytes).any())

    def why_not(self, strategy: Strategy) -> str:
        """Why a strategy does not fit; empty if it does."""
        if not self._is_bounded:
            return ""
        table = tabulate([strategy], self.domain)
        return self._described(peak_needs(table, self.domain, 1)[0]) if self.load(table, 1)[0] > 1 else ""

    def load(self, table: ShardTable, num_strategies: int) -> Floats:
        """The largest fraction of a host's memory that each strategy needs; it fits up to 1. Shape (strategies,)."""
        if not self._is_bounded:
            return np.zeros(num_strategies, np.float32)
        loads: Floats = (peak_needs(table, self.domain, num_strategies) / self.domain.memory_bytes).max(1)
        return loads

    def score_by(self, simulator: Simulator) -> Score:
        """A simulator's scores; strategies that do not fit are worse than all that do, the worse the more they need."""

        def score(proposals: Proposals) -> Floats:
            scores = simulator.score(proposals.table, self.domain, len(proposals))
            load = self.load(proposals.table, len(proposals))
            return np.where(load > 1, load * _TOO_LARGE, scores)

        return score

    def fitting(self, found: ScoredProposals) -> ScoredProposals:
        """The proposals that fit, among those found by these scores; perhaps none."""
        rows = np.flatnonzero(found.scores < _TOO_LARGE).astype(np.int32)
        lots = None if found.lots is None else found.lots[rows]
        return ScoredProposals(found.proposals.take(rows), found.scores[rows], lots)

    def refusal(self, found: ScoredProposals) -> SpaceEmpty:
        """The error if none fits: it says how much memory the smallest one needs."""
        first = found.proposals.take(np.zeros(1, np.int32))
        needs = self._described(peak_needs(first.table, self.domain, 1)[0])
        return SpaceEmpty(
            f"of the strategies that were drawn none fits into the hosts' memory; the smallest: {needs}",
            hint="take a smaller batch or more hosts, or raise `memory_gb` in the spec if a host has more",
        )

    def _described(self, needs: Floats) -> str:
        """A text with the need of the host whose limit is exceeded most."""
        rank = int(np.argmax(needs / self.domain.memory_bytes))
        host = self.domain.spec.hosts[rank]
        activations = self.domain.replicas[rank] * self.domain.activation_bytes
        part = f" ({_gb(activations)} of it for its examples)" if activations else ""
        return f"it needs {_gb(needs[rank])} on `{host.name}`{part}, whose `memory_gb` is {host.memory_gb:g}"


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.3g} GB"
