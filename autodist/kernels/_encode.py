"""Encode: the gradients of some variables leave the worker in another form (thesis 7.3.2, encoder and decoder).

A point where a gradient would be joined gives way to points for its messages. What these deliver is decoded into the
old synchronized gradient, so that servers and collectives need not know of it. A compressor's state (residuals,
counters) is in variables of the worker. A worker without others sends nothing, so nothing is encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from autodist.compressors import FLOATS, Channel, Compressor
from autodist.compressors import get as get_compressor
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels.replicate import with_layers
from autodist.strategies import Strategy


@dataclass(frozen=True)
class Encode(Kernel):
    """Encodes the gradients of the variables to which the strategy gives a compressor.

    Attributes:
        strategy: Says which.
        step: Name of the compiled step, part of the names of state.
        container: Resource container of the state.
    """

    name: ClassVar[str] = "encode"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS, Fact.HOST_SUMS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.MESSAGES})
    strategy: Strategy
    step: str
    container: str = ""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        if graph.layout.world_size == 1:
            return graph
        compressors = {point: self._compressor(point) for point in graph.points}
        if not any(compressors.values()):
            return graph
        rewriting = _Rewriting(graph, self)
        for point, compressor in compressors.items():
            if compressor is None:
                rewriting.points.append(point)
            elif point.combine is Combine.SUM:
                rewriting.encode(point, compressor)
            else:
                rewriting.encode_slices(point, compressor)
        return rewriting.result()

    def _compressor(self, point: SyncPoint) -> Compressor | None:
        if point.variable is None or 0 in (point.shapes[0] or ()):
            return None
        text = self.strategy.config(point.variable).shards[0].compressor
        return None if text is None else get_compressor(text)


class _Rewriting:
    """The new readers of the points, and the nodes of the exchange."""

    def __init__(self, graph: DistributedGraph, kernel: Encode) -> None:
        self.graph = graph
        self.kernel = kernel
        self.nodes = graph.edit(graph.layout.main_device)
        self.points: list[SyncPoint] = []
        self.inputs: dict[str, str] = {}
        """By synchronized node, what it reads from now on."""
        self.effects: list[str] = []
        self.initializers: list[str] = []

    def encode(self, point: SyncPoint, compressor: Compressor) -> None:
        """Replace the point of a dense gradient."""
        name = f"autodist/encoded/{point.name}"
        shape = tuple(int(size or 0) for size in point.shapes[0] or ())
        channel = _PointChannel(self, point, name)
        exchanged = compressor.exchange(self.nodes, name, point.local[0], shape, point.dtypes[0], channel)
        self.inputs[point.synced[0]] = exchanged.total

    def encode_slices(self, point: SyncPoint, compressor: Compressor) -> None:
        """Replace the point of a sparse gradient by one whose values are encoded."""
        name = f"autodist/encoded/{point.name}"
        values, dtype = compressor.encode_slices(self.nodes, name, point.local[0], point.dtypes[0])
        arrived = self.nodes.identity(f"{name}/arrived", values, dtype)
        self.inputs[point.synced[0]] = compressor.decode_slices(self.nodes, name, arrived, point.dtypes[0])
        self.points.append(
            replace(
                point,
                local=(values, *point.local[1:]),
                synced=(arrived, *point.synced[1:]),
                dtypes=(dtype, *point.dtypes[1:]),
                parts=(),
            )
        )

    def result(self) -> DistributedGraph:
        changed = self.graph.edited(
            self.nodes,
            self.inputs,
            effects=(*self.graph.effects, *self.effects),
            initializers=(*self.graph.initializers, *self.initializers),
        )
        return changed.replace(points=with_layers(changed.index, self.points))


@final
class _PointChannel(Channel):
    """Turns the messages of one gradient into points, and its state into variables."""

    def __init__(self, rewriting: _Rewriting, point: SyncPoint, prefix: str) -> None:
        self._to = rewriting
        self._nodes = rewriting.nodes
        self._point = point
        self._prefix = prefix
        self._states: dict[str, tuple[str, str]] = {}

    @property
    def world_size(self) -> int:
        members = self._point.members
        return self._to.graph.layout.world_size if members is None else len(members)

    def all_reduce(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        return self._arrived(name, Combine.SUM, tensor, dtype, shape)

    def gather(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        row = self._nodes.reshape(f"{self._prefix}/{name}/row", tensor, [1, *shape], dtype)
        return self._arrived(name, Combine.CONCAT, row, dtype, (1, *shape))

    def _arrived(self, name: str, combine: Combine, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        label = f"{self._prefix}/{name}"
        synced = self._nodes.identity(f"{label}/arrived", tensor, dtype)
        point = SyncPoint(
            label, self._point.variable, combine, (tensor,), (synced,), (dtype,), (tuple(shape),), even=True
        )
        self._to.points.append(replace(point, members=self._point.members))
        return synced

    def state(self, name: str, initial: str, dtype: str, shape: Sequence[int]) -> str:
        label = f"{self._prefix}/{name}/state"
        handle = self._nodes.add(
            "VarHandleOp",
            label,
            dtype=dtype,
            shape=list(shape),
            shared_name=f"{self._to.kernel.step}/{label}",
            container=self._to.kernel.container,
        )
        self._to.initializers.append(self._assign(f"{label}/initialize", handle, initial, dtype))
        value = self._nodes.add("ReadVariableOp", f"{label}/value", [handle], dtype=dtype)
        self._states[name] = value, dtype
        return value

    def keep(self, name: str, tensor: str) -> None:
        value, dtype = self._states[name]
        label = f"{self._prefix}/{name}/state"
        if dtype in FLOATS:
            finite = self._nodes.add("IsFinite", f"{label}/finite", [tensor], T=dtype)
            tensor = self._nodes.add("SelectV2", f"{label}/next", [finite, tensor, value], T=dtype)
        self._to.effects.append(self._assign(f"{label}/keep", label, tensor, dtype))

    def _assign(self, name: str, handle: str, tensor: str, dtype: str) -> Any:
        return self._nodes.add("AssignVariableOp", name, [handle, tensor], dtype=dtype)
