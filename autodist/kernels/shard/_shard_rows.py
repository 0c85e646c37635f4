"""Rows of a variable that is cut along dim 0: which shard has which rows, and lookups that fetch only those needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autodist.graph import SCALING_OF, NodeList
from autodist.strategies import ShardSlice


@dataclass(frozen=True)
class ShardBounds:
    """Where the shards of a variable are, dim by dim; there is a shard for each combination of the dims' parts.

    Attributes:
        shards: In row-major order.
    """

    shards: tuple[ShardSlice, ...]

    @cached_property
    def begins(self) -> tuple[tuple[int, ...], ...]:
        """Per dim, where its parts begin."""
        rank = len(self.shards[0].begin)
        return tuple(tuple(sorted({shard.begin[dim] for shard in self.shards})) for dim in range(rank))

    @property
    def num_row_parts(self) -> int:
        """Number of parts of dim 0."""
        return len(self.begins[0])

    @property
    def num_columns(self) -> int:
        """Number of shards that share their rows."""
        return len(self.shards) // self.num_row_parts

    def row_part(self, shard: int) -> int:
        """The part of dim 0 that a shard has."""
        return shard // self.num_columns


def with_shape(nodes: NodeList, name: str, *shapes: Sequence[int | None]) -> str:
    """Note the static shapes of the outputs of the node that was added last."""
    import tensorflow as tf

    node = nodes.nodes[-1]
    assert node.name == name, (node.name, name)
    del node.attr["_output_shapes"].list.shape[:]
    node.attr["_output_shapes"].list.shape.extend(tf.TensorShape(list(shape)).as_proto() for shape in shapes)
    return name


def join(nodes: NodeList, name: str, tensors: Sequence[str], bounds: ShardBounds, dtype: str) -> str:
    """Add the concatenation, along all dims, of tensors that the shards have, one each."""
    counts = [len(begins) for begins in bounds.begins]
    last = min(dim for dim, count in enumerate(counts) if count > 1)
    pieces = list(tensors)
    for dim in reversed(range(last, len(counts))):
        groups = [pieces[k : k + counts[dim]] for k in range(0, len(pieces), counts[dim])]
        names = [name if dim == last else f"{name}/joined_{dim}_{k}" for k in range(len(groups))]
        pieces = [
            group[0] if len(group) == 1 else nodes.concat(n, group, dtype, dim - len(counts))
            for n, group in zip(names, groups, strict=True)
        ]
    assert pieces == [name]
    return name


@dataclass
class RowsByShard:
    """Row numbers, sorted by the part of dim 0 that has the row.

    Args:
        nodes: Where to add nodes.
        prefix: Prefix of their names.
        ids: A vector of row numbers in the whole variable.
        dtype: Their type, ``int32`` or ``int64``.
        begins: Where the parts of dim 0 begin.
    """

    nodes: NodeList
    prefix: str
    ids: str
    dtype: str
    begins: tuple[int, ...]
    _made: dict[str, str] = field(default_factory=dict)

    def parts(self, label: str, tensor: str, dtype: str) -> list[str]:
        """A tensor with one entry for every row number, split part by part."""
        count = len(self.begins)
        if count == 1:
            return [tensor]
        name = f"{self.prefix}/{label}"
        if name not in self._made:
            inputs = [tensor, self._part()]
            self._made[name] = self.nodes.add("DynamicPartition", name, inputs, T=dtype, num_partitions=count)
        return [f"{name}:{k}" if k else name for k in range(count)]

    def local(self) -> list[str]:
        """Part by part, the row numbers as counted from the part's first row."""
        found = []
        for k, (begin, ids) in enumerate(zip(self.begins, self.parts("ids", self.ids, self.dtype), strict=True)):
            name = f"{self.prefix}/local_{k}"
            if begin and name not in self._made:
                offset = self.nodes.constant(f"{name}/begin", begin, self.dtype)
                self._made[name] = self.nodes.add("Sub", name, [ids, offset], T=self.dtype)
            found.append(name if begin else ids)
        return found

    def counts(self, ids: Any) -> list[int | None]:
        """Part by part, how many row numbers it has; None if they are not known beforehand.

        Args:
            ids: The row numbers as an array, or None.
        """
        import numpy as np

        if ids is None:
            return [None] * len(self.begins)
        part = np.searchsorted(self.begins, np.ravel(ids), side="right") - 1
        return [int(count) for count in np.bincount(part, minlength=len(self.begins))]

    def positions(self) -> list[str]:
        """Part by part, the places of the row numbers."""
        name = f"{self.prefix}/every_position"
        if name not in self._made:
            size = self.nodes.add("Size", f"{name}/count", [self.ids], T=self.dtype, out_type="int32")
            start = self.nodes.constant(f"{name}/start", 0, "int32")
            step = self.nodes.constant(f"{name}/step", 1, "int32")
            self._made[name] = self.nodes.add("Range", name, [start, size, step], Tidx="int32")
        return self.parts("positions", name, "int32")

    def _part(self) -> str:
        """The part of every row number; those that are too large go to the last part, which refuses them."""
        name = f"{self.prefix}/part"
        if name not in self._made:
            bounds = self.nodes.constant(f"{name}/bounds", [self.begins[1:]], self.dtype)
            row = self.nodes.reshape(f"{name}/row", self.ids, [1, -1], self.dtype)
            found = self.nodes.add("UpperBound", f"{name}/found", [bounds, row], T=self.dtype, out_type="int32")
            self._made[name] = self.nodes.reshape(name, found, [-1], "int32")
        return name


def look_up(
    nodes: NodeList,
    original: Any,
    ids: str,
    ids_dtype: str,
    dtype: str,
    bounds: ShardBounds,
    gather: Callable[[int, str], str],
) -> None:
    """Add, under a lookup's own name, one that asks each shard for the rows that it has.

    Args:
        nodes: Where to add nodes.
        original: The node of the lookup in the whole variable.
        ids: The row numbers, of any shape.
        ids_dtype: Their type.
        dtype: The variable's type.
        bounds: Where the shards are.
        gather: Adds the lookup of some rows, given from the shard's first, in one shard.
    """
    prefix = f"{original.name}/autodist"
    flat = nodes.reshape(f"{prefix}/flat", ids, [-1], ids_dtype)
    rows = RowsByShard(nodes, prefix, flat, ids_dtype, bounds.begins[0])
    local = rows.local()
    found = [gather(k, local[bounds.row_part(k)]) for k in range(len(bounds.shards))]
    columns = []
    for column in range(bounds.num_columns):
        own = found[column :: bounds.num_columns]
        positions = rows.positions() if len(own) > 1 else []
        name = f"{prefix}/stitched_{column}"
        inputs = [*positions, *own]
        columns.append(nodes.add("DynamicStitch", name, inputs, N=len(own), T=dtype) if len(own) > 1 else own[0])
    row = [sum(shard.size[dim] for shard in _line(bounds, dim)) for dim in range(1, len(bounds.begins))]
    one_part = ShardBounds(tuple(ShardSlice((0, *s.begin[1:]), s.size) for s in bounds.shards[: bounds.num_columns]))
    joined = join(nodes, f"{prefix}/joined", columns, one_part, dtype) if len(columns) > 1 else columns[0]
    shape = nodes.add("Shape", f"{prefix}/ids_shape", [ids], T=ids_dtype, out_type="int32")
    row_shape = nodes.constant(f"{prefix}/row_shape", row, "int32")
    whole_shape = nodes.concat(f"{prefix}/shape", [shape, row_shape], "int32")
    nodes.add("Reshape", original.name, [joined, whole_shape], T=dtype, Tshape="int32")
    nodes.nodes[-1].attr["_output_shapes"].CopyFrom(original.attr["_output_shapes"])
    nodes.nodes[-1].attr[SCALING_OF].s = ids.encode()


def _line(bounds: ShardBounds, dim: int) -> list[ShardSlice]:
    """The shards along one dim, at the beginning of all others."""
    return [s for s in bounds.shards if all(b == 0 for d, b in enumerate(s.begin) if d != dim)]
