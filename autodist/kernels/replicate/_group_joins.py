"""Where groups of replicas meet: how their values become that of the whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autodist.graph import BatchScaling, NodeList, tensor_dtype, tensor_shape
from autodist.graph.operators import Kind, is_kind
from autodist.kernels._base import Combine, SyncPoint
from autodist.kernels._layout import Layout
from autodist.kernels.replicate._batch_rows import FirstRows, entry_of
from autodist.kernels.replicate._counter_based import CounterBasedRandom, elements_of_rows
from autodist.kernels.replicate._group_meetings import GroupMeetings
from autodist.kernels.replicate._shares import BatchShares

GROUP_TOTAL = "autodist/group/total"
"""The size of the part of the batch that a group has."""

_ROWS = frozenset({BatchScaling.ROWS, BatchScaling.SUBSET})


@dataclass(frozen=True)
class _GroupStart:
    """Where the rows of a group begin in the batch."""

    tensor: str

    def first(self, replica: int) -> str:
        """The first row of any of its replicas, which compute the same."""
        return self.tensor


class GroupJoins:
    """Adds the nodes that make a group's values parts of those of the whole batch.

    Args:
        meetings: Where groups meet.
        out: Where to add nodes.
        layout: This worker among all.
        points: Where workers meet; those between groups are added.
    """

    def __init__(self, meetings: GroupMeetings, out: NodeList, layout: Layout, points: list[SyncPoint]) -> None:
        self._meetings = meetings
        self._nodes = meetings.graph.analysis.nodes
        self._out = out
        self._layout = layout
        self._points = points
        self._shares = BatchShares(out, 1, layout.groups, is_idle=False)
        self.starts: FirstRows
        """Where the rows of this worker's replicas begin in the batch of all groups."""

    def own_counts(self, counts: str, total: str) -> str:
        """The numbers of rows of the replicas of this group.

        Args:
            counts: The numbers of rows of all replicas of all workers, in their order.
            total: Name for the size of the batch, which may be fed.
        """
        size, name = self._layout.num_replicas // self._layout.groups, "autodist/group"
        dim = self._out.constant(f"{name}/dim", [0], "int32")
        sums: dict[str, Any] = {"T": "float32", "Tidx": "int32", "keep_dims": False}
        everywhere = self._out.add("Sum", f"{name}/all", [counts, dim], **sums)
        begin = self._out.constant(f"{name}/begin", [self._layout.group * size], "int32")
        length = self._out.constant(f"{name}/size", [size], "int32")
        own = self._out.add("Slice", f"{name}/counts", [counts, begin, length], T="float32", Index="int32")
        rows = self._out.add("Sum", f"{name}/sum", [own, dim], **sums)
        self._shares.take_rows(self._out.reshape(f"{name}/rows", rows, [1], "float32"))
        self._shares.add_total(total, everywhere)
        self.starts = FirstRows(self._out, self._layout, counts, f"{name}/all", f"{name}/all")
        self._start = _GroupStart(entry_of(self._out, f"{name}/first", self.starts.firsts, self._layout.group * size))
        return own

    @property
    def total(self) -> str:
        """The size of the batch of all groups."""
        return self._shares.total

    def made(self, node: Any, copy: Any) -> str:
        """The result of a node that each worker of a group computes whole.

        Args:
            node: The node of the step.
            copy: The group's: one that draws is made to draw what one device does for the group's rows.
        """
        each = elements_of_rows(self._meetings.graph.analysis, node.name) if is_kind(node.op, Kind.RANDOM) else None
        if each is not None and node.name in self._meetings.graph.analysis.scalings:
            return CounterBasedRandom(self._nodes, self._out, self._start).own(node, copy, 0, each)
        return self._met(str(node.name))

    def _met(self, name: str) -> str:
        """The value of all groups of a node at which they meet; any other node is itself."""
        scaling = self._meetings.scalings.get(name)
        if scaling is None:
            return name
        tensor = self._nodes[name].input[0]
        dtype, shape = tensor_dtype(self._nodes, name), tensor_shape(self._nodes, tensor)
        if scaling in _ROWS:
            return self._joined(name, Combine.CONCAT, name, dtype, shape)
        if scaling is BatchScaling.SHAPE:
            return self._joined_shape(name, dtype)
        kind = "share" if scaling is BatchScaling.MEAN else "active"
        return self._joined(name, Combine.SUM, self._weighted(name, name, kind, dtype), dtype, shape)

    def _joined_shape(self, name: str, dtype: str) -> str:
        """The shape of the joined rows: the sum of the groups' shapes, with the static dims put right."""
        static = self._meetings.sizes[name]
        local = self._weighted(name, name, "active", dtype)
        total = self._joined(name, Combine.SUM, local, dtype, (len(static),))
        varying = self._out.constant(f"{total}/varying", [size is None for size in static], dtype)
        fixed = self._out.constant(f"{total}/fixed", [size or 0 for size in static], dtype)
        batch = self._out.add("Mul", f"{total}/batch", [total, varying], T=dtype)
        return self._out.add("AddV2", f"{total}/shape", [batch, fixed], T=dtype)

    def _joined(
        self, label: str, combine: Combine, local: str, dtype: str, shape: tuple[int | None, ...] | None
    ) -> str:
        synced = self._out.identity(f"autodist/synced/{label}", local, dtype)
        peers = self._layout.peers
        self._points.append(SyncPoint(label, None, combine, (local,), (synced,), (dtype,), (shape,), members=peers))
        return synced

    def gradient(self, mark: str, tensor: str, dtype: str, replica: int = 0) -> str:
        """A group's gradient, or a term of it, weighted as a term of the gradient of the whole batch."""
        return self._weighted(f"{mark}/replica_{replica}", tensor, self._meetings.weights[mark], dtype)

    def part_of_worker(self, mark: str, tensor: str, dtype: str) -> str:
        """The weighted gradient, divided by the group's number of workers, if all of these have the same gradient."""
        weighted = self.gradient(mark, tensor, dtype)
        workers = self._out.constant(f"autodist/of_worker/{mark}/count", len(self._layout.members), dtype)
        return self._out.add("RealDiv", f"autodist/of_worker/{mark}", [weighted, workers], T=dtype)

    def of_part(self, variable: str, marks: tuple[str, ...], found: tuple[str, ...], shape: Any) -> SyncPoint:
        """The point at which groups join the gradient of a part of a variable, which one worker of each has.

        Args:
            variable: The part.
            marks: The marks of the gradient: one, or those of its values and of its row numbers.
            found: The gradient's tensors of this worker's group.
            shape: The shape of the part.
        """
        dtypes = tuple(tensor_dtype(self._nodes, mark) for mark in marks)
        is_dense, parts = len(marks) == 1, [self._meetings.graph.analysis.marks[mark].part for mark in marks]
        local = tuple(
            tensor if part == "indices" else self.gradient(mark, tensor, dtype)
            for mark, tensor, dtype, part in zip(marks, found, dtypes, parts, strict=True)
        )
        for mark, tensor, dtype in zip(marks, local, dtypes, strict=True):
            self._out.identity(mark, tensor, dtype)
        combine, shapes = (Combine.SUM, (shape,)) if is_dense else (Combine.CONCAT, (None,) * len(marks))
        return SyncPoint(marks[0], variable, combine, local, marks, dtypes, shapes, members=self._layout.peers)

    def _weighted(self, label: str, tensor: str, kind: str, dtype: str) -> str:
        """A group's values times their weight; without examples the product is 0, even if values are NaN."""
        factor = self._shares.scalar(kind, 0, dtype)
        is_whole = dtype.startswith(("int", "uint"))
        op = "Mul" if is_whole else "MulNoNan"
        return self._out.add(op, f"autodist/of_group/{label}", [tensor, factor], T=dtype)
