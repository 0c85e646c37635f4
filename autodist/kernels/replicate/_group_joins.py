"""Where groups of replicas meet: how their values become that of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph import NodeList, tensor_dtype, tensor_shape
from autodist.graph.layouts import Dim, Multiple
from autodist.graph.operators import Kind, is_kind
from autodist.kernels._base import Combine, SyncPoint
from autodist.kernels._layout import Layout
from autodist.kernels.replicate._batch_rows import FirstRows, entry_of
from autodist.kernels.replicate._counter_based import CounterBasedRandom, elements_of_rows
from autodist.kernels.replicate._group_meetings import GroupMeetings
from autodist.kernels.replicate._group_numbers import Number
from autodist.kernels.replicate._shares import MANY_ROWS, BatchShares

GROUP_TOTAL = "autodist/group/total"
"""The size of the part of the batch that a group has."""


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
        self._firsts: dict[str, str] = {}
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
        self._all_rows = self._out.cast(f"{total}/int", total, "float32", "int32")
        self._is_first = self._first_of_those_with_rows(rows, total)
        return own

    def _first_of_those_with_rows(self, rows: str, total: str) -> str:
        """Whether this is the first group that has rows, or the first of all if none has."""
        name, zero = "autodist/group/is_first", self._out.constant("autodist/group/is_first/zero", 0.0, "float32")
        found = self._out.add("Greater", f"{name}/has_rows", [rows, zero], T="float32")
        if self._layout.group == 0:
            is_empty = self._out.add("LessEqual", f"{name}/is_empty", [total, zero], T="float32")
            return self._out.add("LogicalOr", name, [found, is_empty])
        none = self._out.constant(f"{name}/none", 0, "int32")
        is_begin = self._out.add("LessEqual", f"{name}/is_begin", [self._start.tensor, none], T="int32")
        return self._out.add("LogicalAnd", name, [found, is_begin])

    def has_rows(self, tensor: str) -> bool:
        """Whether groups meet at a tensor with the rows that they have."""
        return self._meetings.joined.get(tensor) is Combine.CONCAT

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
        meetings = self._meetings
        if name not in meetings.names:
            return name
        dtype = tensor_dtype(self._nodes, name)
        if name in meetings.numbers:
            return self._number(meetings.numbers[name], dtype)
        if name in meetings.sizes:
            return self._size(name, meetings.sizes[name], dtype)
        combine = meetings.joined[name]
        local = self._weighted(name, name, "active", dtype) if combine is Combine.SUM else name
        synced = self._out.identity(f"autodist/synced/{name}", local, dtype)
        shape, peers = tensor_shape(self._nodes, name), self._layout.peers
        self._points.append(SyncPoint(name, None, combine, (local,), (synced,), (dtype,), (shape,), members=peers))
        return synced

    def _number(self, number: Number, dtype: str) -> str:
        if number == "begin":
            return self._start.tensor
        if number == "first" and dtype not in self._firsts:
            self._firsts[dtype] = self._out.cast(f"autodist/group/is_first/{dtype}", self._is_first, "bool", dtype)
        if number == "first":
            return self._firsts[dtype]
        return self._shares.scalar(number, 0, dtype)

    def _size(self, name: str, entries: Sequence[Dim], dtype: str) -> str:
        """A size of a tensor of the whole batch, from the number of rows of all groups."""
        of_rows = [entry.times if isinstance(entry, Multiple) else 0 for entry in entries]
        times = self._out.constant(f"{name}/times", of_rows, "int32")
        fixed = self._out.constant(f"{name}/fixed", [e if isinstance(e, int) else 0 for e in entries], "int32")
        rows = self._out.add("Mul", f"{name}/rows", [times, self._all_rows], T="int32")
        found = self._out.add("AddV2", f"{name}/all", [rows, fixed], T="int32")
        found = self._out.cast(f"{name}/cast", found, "int32", dtype)
        is_scalar = tensor_shape(self._nodes, name) == ()
        return self._out.reshape(f"{name}/scalar", found, [], dtype) if is_scalar else found

    def gradient(self, mark: str, tensor: str, dtype: str, replica: int = 0) -> str:
        """A group's gradient, or a term of it, weighted as a term of the gradient of the whole batch."""
        return self._weighted(f"{mark}/replica_{replica}", tensor, self._weight(mark), dtype)

    def _weight(self, mark: str) -> Number:
        """How groups have a gradient; one in which no example has a part is the same in all of them."""
        return self._meetings.weights.get(mark, "share")

    def rows(self, mark: str, tensor: str, dtype: str, replica: int = 0) -> str:
        """A group's rows of a sparse gradient, or their numbers; of those that all groups have, the first gives all."""
        if self._weight(mark) != "share":
            is_values = self._meetings.graph.analysis.marks[mark].part == "values"
            return self.gradient(mark, tensor, dtype, replica) if is_values else tensor
        name = f"autodist/of_first_group/{mark}/replica_{replica}"
        many = self._out.constant(f"{name}/many", [MANY_ROWS], "int32")
        end = self._out.add("Mul", f"{name}/end", [many, self._number("first", "int32")], T="int32")
        begin, by = (self._out.constant(f"{name}/{what}", [at], "int32") for what, at in (("begin", 0), ("by", 1)))
        inputs = [tensor, begin, end, by]
        return self._out.add("StridedSlice", name, inputs, T=dtype, Index="int32")

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
        is_dense = len(marks) == 1
        weighted = self.gradient if is_dense else self.rows
        local = tuple(weighted(mark, tensor, dtype) for mark, tensor, dtype in zip(marks, found, dtypes, strict=True))
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
