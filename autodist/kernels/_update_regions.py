"""Update regions of units: what it takes to apply an update apart from the step that has computed its gradients."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autodist.graph import data_inputs, is_stateful, node_of, normalize
from autodist.kernels._base import DistributedGraph, SyncPoint
from autodist.kernels._updated_units import UpdatedUnit, units_of_handles, writes_of

_REPLICAS_OWN = re.compile(r"replica_\d+/")


@dataclass(frozen=True)
class UnitRegion:
    """One unit's update.

    Attributes:
        roots: The nodes with effects: writes to the unit's variables and slots, prints of its gradients.
        nodes: All nodes to be copied to the server, inputs before consumers.
        crossing: Tensors that the worker computes and sends along: a learning rate, a correction by the step's number.
        waits: By node, the nodes before it that read or write the same variable.
    """

    roots: tuple[str, ...]
    nodes: tuple[str, ...]
    crossing: tuple[str, ...]
    waits: Mapping[str, tuple[str, ...]]


class UnitRegions:
    """Finds the update regions of units in a replicated step.

    A node belongs to a unit's region if its update needs it and it depends on the unit's synchronized gradients, on its
    variables or on constants only. The worker computes all other nodes, and sends their values: they cross.

    Args:
        graph: The replicated step.
        units: The units.
        points: By unit, where its gradients are synchronized.
    """

    def __init__(
        self, graph: DistributedGraph, units: Sequence[UpdatedUnit], points: Mapping[str, Sequence[SyncPoint]]
    ) -> None:
        self.analysis = graph.analyze()
        self._effects = graph.effects
        self._bit = {unit.name: 1 << k for k, unit in enumerate(units)}
        self._unit_of_handle = units_of_handles(units, graph.variables)
        self.writes = writes_of(self.analysis, self._unit_of_handle)
        """By node that changes a unit's variable or slot, the unit."""
        self._synced = {s: self._bit[name] for name, own in points.items() for p in own for s in p.synced}
        self._joined = {s for p in graph.points for s in p.synced}
        self.behind = self.analysis.gradient_bits(self._synced)
        """By node, the units whose synchronized gradients it depends on, as bits."""

    def roots(self, unit: str) -> tuple[str, ...]:
        """The nodes with an effect that are the unit's business."""
        writes = [write for write, owner in self.writes.items() if owner == unit]
        others = [e for e in self._effects if self.behind.get(e, 0) & self._bit[unit] and e not in self.writes]
        return tuple(dict.fromkeys([*writes, *others]))

    def region(self, unit: str) -> UnitRegion:
        """A unit's region."""
        roots, crossing = self.roots(unit), set()
        members: set[str] = set()
        stack = list(roots)
        while stack:
            name = stack.pop()
            if name in members:
                continue
            members.add(name)
            for tensor in data_inputs(self.analysis.nodes[name]):
                source = node_of(tensor)
                if self._is_given(source):
                    continue
                if self._belongs(source, unit):
                    stack.append(source)
                else:
                    crossing.add(normalize(tensor))
        nodes = tuple(name for name in self.analysis.order if name in members)
        return UnitRegion(roots, nodes, tuple(sorted(crossing)), self._waits(nodes, unit))

    def _is_given(self, name: str) -> bool:
        """Whether the server has it without copying: handles, and the gradients that arrive."""
        return name in self.analysis.handles or name in self._synced

    def _belongs(self, name: str, unit: str) -> bool:
        tied = bool(self._tied.get(name, 0) & self._bit[unit])
        return tied or name in self.constants or name in self.analysis.handle_of

    @cached_property
    def _tied(self) -> dict[str, int]:
        """By node of the worker, the units whose gradients or variables its value depends on."""
        tied = dict(self._synced)
        for name in self.analysis.order:
            if name in self._joined or _REPLICAS_OWN.match(name):
                continue
            bits = 0
            for source in self.analysis.sources[name]:
                bits |= tied.get(source, 0)
            for handle in self.analysis.touched(self.analysis.nodes[name]):
                bits |= self._bit.get(self._unit_of_handle.get(handle, ""), 0)
            if bits:
                tied[name] = bits
        return tied

    @cached_property
    def constants(self) -> set[str]:
        """Nodes whose value is the same at any time."""
        found: set[str] = set()
        for name in self.analysis.order:
            node = self.analysis.nodes[name]
            sources = self.analysis.sources[name]
            if node.op == "Const" or (sources and not is_stateful(node.op) and all(s in found for s in sources)):
                found.add(name)
        return found

    def _waits(self, nodes: Sequence[str], unit: str) -> dict[str, tuple[str, ...]]:
        """The order of reads and writes of each variable, as in the step."""
        last_write: dict[str, list[str]] = {}
        reads: dict[str, list[str]] = {}
        found: dict[str, tuple[str, ...]] = {}
        for name in nodes:
            node = self.analysis.nodes[name]
            handles = [h for h in self.analysis.touched(node) if self._unit_of_handle.get(h) == unit]
            if node.op == "Identity" or not handles:
                continue
            before = [b for h in handles for b in last_write.get(h, [])]
            for handle in handles:
                if name in self.writes:
                    before += reads.pop(handle, [])
                    last_write[handle] = [name]
                else:
                    reads.setdefault(handle, []).append(name)
            found[name] = tuple(dict.fromkeys(before))
        return found
