"""Settle: variables are where earlier steps of the scope have put them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from autodist.kernels._base import DistributedGraph, Fact, Kernel


@dataclass(frozen=True)
class Settle(Kernel):
    """Have the graph find variables where earlier steps have put them.

    Attributes:
        placement: By variable, the device that holds it.
    """

    name: ClassVar[str] = "settle"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.SHARDS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.PLACED})
    placement: Mapping[str, str] = field(default_factory=dict)

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        return graph.replace(placement={**graph.placement, **self.placement})
