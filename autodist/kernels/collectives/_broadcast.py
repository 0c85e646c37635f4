"""Broadcast: sufficient factors go to every worker, which rebuilds the gradient and applies it (thesis chapter 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autodist import carriers
from autodist.carriers import Communicator
from autodist.graph import NodeList
from autodist.kernels._base import DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._synchronizers import given_to
from autodist.strategies import BroadcastSynchronizer, Strategy, Synchronizer


@dataclass(frozen=True)
class BroadcastFactors(Kernel):
    """Gather the factors of the variables that the strategy gives to Broadcast, pair by pair in one message.

    Attributes:
        strategy: Says which variables, and by which communicator.
        step: Name of the compiled step.
    """

    name: ClassVar[str] = "broadcast-factors"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.MESSAGES, Fact.FACTORS, Fact.SERVED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.SPREAD})
    synchronizer: ClassVar[type[Synchronizer]] = BroadcastSynchronizer
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        given = {p: given_to(BroadcastSynchronizer, self.strategy, p.variable) for p in graph.points}
        found = {point: synchronizer for point, synchronizer in given.items() if synchronizer is not None}
        if graph.layout.world_size == 1 or not found:
            return graph
        nodes = graph.edit(graph.layout.main_device)
        inputs: dict[str, str] = {}
        for point, synchronizer in found.items():
            carry = carriers.get(synchronizer.communicator).communicator(graph.layout.place(self.step))
            inputs |= _gathered(nodes, point, carry)
        return graph.edited(nodes, inputs)


def _gathered(nodes: NodeList, point: SyncPoint, carry: Communicator) -> dict[str, str]:
    """Add the gathering of every worker's pairs; returns what each synced node reads from now on."""
    name = f"autodist/broadcast/{point.name}"
    if len(set(point.dtypes)) == 1:
        return _side_by_side(nodes, name, point, carry)
    names = [f"{name}/{synced}" for synced in point.synced]
    return dict(zip(point.synced, carry.all_gather_rows(nodes, names, point.local, point.dtypes), strict=True))


def _side_by_side(nodes: NodeList, name: str, point: SyncPoint, carry: Communicator) -> dict[str, str]:
    """Both factors in one collective."""
    dtype = point.dtypes[0]
    pairs = nodes.concat(f"{name}/pairs", point.local, dtype, dim=1)
    everywhere = carry.all_gather(nodes, name, pairs, dtype)
    widths = nodes.constant(f"{name}/split/widths", [_width(point, k) for k in range(len(point.local))], "int32")
    dim = nodes.constant(f"{name}/split/dim", 1, "int32")
    count = len(point.local)
    split = nodes.add("SplitV", f"{name}/split", [everywhere, widths, dim], num_split=count, T=dtype, Tlen="int32")
    return {synced: f"{split}:{k}" for k, synced in enumerate(point.synced)}


def _width(point: SyncPoint, part: int) -> int:
    shape = point.shapes[part]
    assert shape is not None, point.name
    width = shape[1]
    assert width is not None, point.name
    return width
