"""The contract of simulators."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from autodist.simulator._message_table import Floats, ShardTable, tabulate

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.strategies import Strategy


class Simulator(abc.ABC):
    """Predicts how long a step takes, so that strategies can be ranked without running them."""

    name: ClassVar[str]
    """Its name for users."""

    @abc.abstractmethod
    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step, or a number that grows with them, of each strategy in the table; shape (strategies,)."""

    def represent(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """The features that distinguish strategies for the simulator, one row for each (thesis 8.3.2).

        For networks these are the inputs of their last layer, for others the features z_pre and z_raw.
        """
        from autodist.simulator.features import encode

        return encode(table, domain, num_strategies).variables.reshape(num_strategies, -1)

    def predict(self, strategies: Sequence[Strategy], domain: Domain) -> Floats:
        """The scores of strategies that are not a table yet.

        Example:
            >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
            >>> from autodist.resource_spec import ResourceSpec
            >>> from autodist.simulator import AnalyticSimulator, Domain
            >>> from autodist.strategies import PS, PSLoadBalancing
            >>> names = ("v", "w")
            >>> variables = [Variable(n, n, (1000, 250), "float32", Role.TRAINABLE, (Gradient(n),)) for n in names]
            >>> graph, spec = TrainingGraph(None, tuple(variables), (), (), ()), ResourceSpec.local(workers=4)
            >>> domain = Domain.of(graph, spec)
            >>> one_server, two_servers = [builder.build(graph, spec) for builder in (PS(), PSLoadBalancing())]
            >>> times = AnalyticSimulator().predict([one_server, two_servers], domain)
            >>> bool(times[1] < times[0])
            True
        """
        return self.score(tabulate(strategies, domain), domain, len(strategies))


def chunked(table: ShardTable, num_strategies: int, most_rows: int) -> Iterator[tuple[ShardTable, int]]:
    """Parts of a table: whole strategies with at most this many rows, numbered from 0 again, and their number."""
    begins = np.searchsorted(table.strategy, np.arange(num_strategies + 1))
    first = 0
    while first < num_strategies:
        end = int(np.searchsorted(begins, begins[first] + most_rows, "right")) - 1
        end = min(max(end, first + 1), num_strategies)
        yield _part(table, begins, first, end), end - first
        first = end


def in_parts(table: ShardTable, num_strategies: int, most: int) -> Iterator[tuple[ShardTable, int]]:
    """Parts of a table of this many strategies at most, numbered from 0 again, each with their number."""
    begins = np.searchsorted(table.strategy, np.arange(num_strategies + 1))
    for first in range(0, num_strategies, most):
        end = min(first + most, num_strategies)
        yield _part(table, begins, first, end), end - first


def _part(table: ShardTable, begins: npt.NDArray[np.intp], first: int, end: int) -> ShardTable:
    part = table.take(slice(int(begins[first]), int(begins[end])))
    return part.replaced(strategy=part.strategy - np.int32(first))
