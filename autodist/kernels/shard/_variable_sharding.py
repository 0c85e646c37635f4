"""Sharding: makes a graph in which some variables, their slots and their updates exist once per shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autodist.graph import (
    MARK,
    Domain,
    Gradient,
    GradientMark,
    GraphEditor,
    StepAnalysis,
    UpdateRegion,
    data_inputs,
    is_aligned,
    node_of,
    parse_mark,
    split_tensor,
    static_value,
    strip_missing_colocation,
    takes_rows,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.operators import Asks, meaning
from autodist.kernels.shard._numbers_of_parts import of_all_parts, of_part
from autodist.kernels.shard._shard_rows import RowsByShard, ShardBounds, join, look_up, with_shape
from autodist.strategies import ShardSlice

_SEGMENT_COUNT = 2  # the input of UnsortedSegmentSum that holds the number of rows of the result


@dataclass(frozen=True)
class ShardedVariable:
    """A variable that is cut into shards, with the slots and the update that are cut along with it.

    Attributes:
        number: Unlike that of any other cut variable.
        region: The variable's update.
        shards: Its parts.
        is_tiled: Whether replicas compute with their parts: then rows that they look up in these are not joined here.
    """

    number: int
    region: UpdateRegion
    shards: tuple[ShardSlice, ...]
    is_tiled: bool = False

    @cached_property
    def bounds(self) -> ShardBounds:
        """Where the shards are, dim by dim."""
        return ShardBounds(self.shards)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole variable."""
        return self.region.variable.shape

    def copy(self, shard: int, tensor: str) -> str:
        """A shard's name for a node or tensor of the whole."""
        name, index = split_tensor(tensor)
        return f"autodist/partition/{self.number}/shard_{shard}/{name}" + (f":{index}" if index > 0 else "")

    def copies(self, name: str) -> list[str]:
        """All shards' names for a node."""
        return [self.copy(shard, name) for shard in range(len(self.shards))]

    def gradients(self, shard: int) -> tuple[Gradient, ...]:
        """The gradients of a shard."""

        def own(mark: str | None) -> str | None:
            return None if mark is None else self.copy(shard, mark)

        return tuple(Gradient(own(g.dense), own(g.values), own(g.indices)) for g in self.region.variable.gradients)


class VariableSharding:
    """Cuts variables of one graph; everything that is not an update keeps its name and sees whole variables.

    Args:
        analysis: The graph.
        cuts: The variables to cut, which have no obstacles.
    """

    def __init__(self, analysis: StepAnalysis, cuts: Sequence[ShardedVariable]) -> None:
        self.analysis = analysis
        self.nodes = analysis.nodes
        self.cuts = cuts
        self.out = GraphEditor.like(analysis.graph_def)
        self.cut_of_handle = {handle: cut for cut in cuts for handle in cut.region.handles}
        gradients = [(cut, gradient) for cut in cuts for gradient in cut.region.variable.gradients]
        self.cut_of_mark = {mark: (cut, g) for cut, g in gradients for mark in g.tensors}
        self.cut_of_write = {write: cut for cut in cuts for write in cut.region.writes}
        marked = (parse_mark(node.attr[MARK].s) for node in self.nodes.values() if MARK in node.attr)
        self.next_mark = 1 + max((mark.gradient for mark in marked), default=-1)
        self.numbers = frozenset(name for cut in cuts for name in cut.region.numbers)
        self.copied = {(cut.number, name) for cut in cuts for name in cut.region.domains}
        self.sliced: dict[tuple[int, int, str], str] = {}

    def build(self) -> Any:
        """The new GraphDef."""
        for name, node in self.nodes.items():
            self._note_reads(name, node)
        for name, node in self.nodes.items():
            self._emit(name, node)
        for cut in self.cuts:
            for shard in range(len(cut.shards)):
                for name in cut.region.domains:
                    self._emit_copy(cut, shard, name)
            for name in cut.region.numbers:
                self._emit_number(cut, self.nodes[name])
        graph_def = self.out.finish()
        strip_missing_colocation(graph_def)
        return graph_def

    def effects(self, effects: Sequence[str]) -> list[tuple[str, str]]:
        """The effects of the new graph, each with the effect that it replaces."""
        found: list[tuple[str, str]] = []
        for effect in effects:
            cut = self.cut_of_write.get(effect)
            found.extend((copy, effect) for copy in (cut.copies(effect) if cut is not None else [effect]))
        return found

    # The whole: what keeps its name -----------------------------------------------------------------------------

    def _note_reads(self, name: str, node: Any) -> None:
        cut = self._read_cut(name)
        if cut is not None:
            self.copied.add((cut.number, name))
        lookup = self._lookup_cut(node)
        if lookup is not None:
            self.copied.add((lookup.number, name))

    def _read_cut(self, name: str) -> ShardedVariable | None:
        """The variable that a node reads, if it is cut."""
        node = self.nodes[name]
        return self._touched_cut(node) if node.op == "ReadVariableOp" else None

    def _touched_cut(self, node: Any) -> ShardedVariable | None:
        """The variable whose handle a node takes, if it is cut.

        A handle that comes out of a loop is no cut variable's, because loops take variables whole.
        """
        return next((self.cut_of_handle.get(handle) for handle in self.analysis.touched(node)), None)

    def _lookup_cut(self, node: Any) -> ShardedVariable | None:
        """The variable in which a node looks rows up, if it is cut."""
        if not takes_rows(node, self.nodes):
            return None
        by_handle = node.op == "ResourceGather"
        cut = self._touched_cut(node) if by_handle else self._read_cut(node_of(node.input[0]))
        return None if cut is None or cut.is_tiled or node.name in cut.region.domains else cut

    def _slot_lookup_cut(self, node: Any) -> ShardedVariable | None:
        """The cut variable in which, or in a slot of which, its update looks rows up by its handle."""
        return self.cut_of_handle.get(self.analysis.touched(node)[0]) if node.op == "ResourceGather" else None

    def _values_lookup_cut(self, node: Any) -> ShardedVariable | None:
        """The cut variable in which a node picks elements by handle and coordinates: no single shard has them all."""
        lookup = meaning(node.op).lookup
        return self._touched_cut(node) if lookup is not None and lookup.by_handle and lookup.by_coordinates else None

    def _emit(self, name: str, node: Any) -> None:
        cut = self.cut_of_handle.get(self.analysis.handle_of.get(name, ""))
        if cut is not None:
            for copy in cut.copies(name) if name in self.cut_of_handle else ():
                self._clone(node, copy)
        elif name in self.cut_of_write or name in self.numbers:
            pass  # its copies take its place
        elif name in self.cut_of_mark:
            self._emit_mark(name, node)
        elif (cut := self._read_cut(name)) is not None:
            self._emit_read(cut, name, node)
        elif (cut := self._lookup_cut(node)) is not None:
            self._emit_lookup(cut, node)
        elif (cut := self._slot_lookup_cut(node)) is not None:
            self._emit_lookup(cut, node, "/whole")
        elif (cut := self._values_lookup_cut(node)) is not None:
            self._emit_values_lookup(cut, node)
        elif (shape := self._known_shape(node)) is not None:
            self._emit_shape(node, shape)
        else:
            without = () if name in self.analysis.marks else (MARK,)
            self._clone(node, name, [*data_inputs(node), *self._controls(node)], without)

    def _clone(self, node: Any, name: str, inputs: Iterable[str] = (), without: Iterable[str] = ()) -> str:
        return self.out.clone(node, name, inputs, device=node.device, without=without)

    def _controls(self, node: Any, cut: ShardedVariable | None = None, shard: int = 0) -> list[str]:
        """The nodes that a node waits for; a shard's copy waits for its own shard's copies only."""
        waits: dict[str, None] = {}
        seen: set[str] = set()
        stack = [tensor[1:] for tensor in node.input if tensor.startswith("^")]
        while stack:
            other = stack.pop()
            if other in seen:
                continue
            seen.add(other)
            if cut is not None and (cut.number, other) in self.copied:
                waits[f"^{cut.copy(shard, other)}"] = None
            elif other in self.cut_of_write:
                waits.update(dict.fromkeys(f"^{copy}" for copy in self.cut_of_write[other].copies(other)))
            elif cut is not None and self.nodes[other].op == "NoOp":
                stack.extend(node_of(tensor) for tensor in self.nodes[other].input)
            elif self.analysis.handle_of.get(other) not in self.cut_of_handle:
                waits[f"^{other}"] = None
        return sorted(waits)

    def _emit_read(self, cut: ShardedVariable, name: str, node: Any) -> None:
        (handle,) = self.analysis.touched(node)
        for shard, part in enumerate(cut.shards):
            inputs = [cut.copy(shard, handle), *self._controls(node, cut, shard)]
            with_shape(self.out, self._clone(node, cut.copy(shard, name), inputs), part.size)
        join(self.out, name, cut.copies(name), cut.bounds, tensor_dtype(self.nodes, name))
        with_shape(self.out, name, cut.shape)

    def _emit_lookup(self, cut: ShardedVariable, node: Any, suffix: str = "") -> None:
        source, ids, *axis = data_inputs(node)

        def gather(shard: int, local: str) -> str:
            params = self.analysis.handle_of.get(node_of(source), node_of(source))
            inputs = [cut.copy(shard, params), local, *axis, *self._controls(node, cut, shard)]
            copy = self._clone(node, cut.copy(shard, node.name) + suffix, inputs)
            return with_shape(self.out, copy, (None, *cut.shards[shard].size[1:]))

        dtype = tensor_dtype(self.nodes, node.name)
        look_up(self.out, node, ids, tensor_dtype(self.nodes, ids), dtype, cut.bounds, gather)

    def _emit_values_lookup(self, cut: ShardedVariable, node: Any) -> None:
        """Put the whole together, and pick from that."""
        (handle,) = self.analysis.touched(node)
        _, *others = data_inputs(node)
        dtype, ids = tensor_dtype(self.nodes, node.name), tensor_dtype(self.nodes, others[0])
        parts = [f"{copy}/value" for copy in cut.copies(node.name)]
        for shard, (part, name) in enumerate(zip(cut.shards, parts, strict=True)):
            inputs = [cut.copy(shard, handle), *self._controls(node, cut, shard)]
            with_shape(self.out, self.out.add("ReadVariableOp", name, inputs, dtype=dtype), part.size)
        whole = f"autodist/partition/{cut.number}/{node.name}/whole"
        join(self.out, whole, parts, cut.bounds, dtype)
        with_shape(self.out, whole, cut.shape)
        inputs = [whole, *others, *self._controls(node)]
        self.out.add("GatherNd", node.name, inputs, Tparams=dtype, Tindices=ids)
        self.out.nodes[-1].attr["_output_shapes"].CopyFrom(node.attr["_output_shapes"])

    def _known_shape(self, node: Any) -> tuple[int, ...] | None:
        """The shape that a node asks for, if it is that of a cut variable."""
        if node.op == "VariableShape":
            cut = self._touched_cut(node)
            return None if cut is None else cut.shape
        if meaning(node.op).asks in (None, Asks.EACH):
            return None
        source = node_of(node.input[0])
        read = self._read_cut(source)
        if read is not None:
            return read.shape
        dense = (c for c in self.cuts if c.region.domains.get(source) == (Domain.DENSE,))
        found = next(dense, None)
        return None if found is None else found.shape

    def _emit_shape(self, node: Any, shape: tuple[int, ...]) -> None:
        import numpy as np

        numbers: dict[Asks | None, int] = {Asks.RANK: len(shape), Asks.COUNT: int(np.prod(shape))}
        value = numbers.get(meaning(node.op).asks, list(shape))
        self.out.constant(node.name, value, tensor_dtype(self.nodes, node.name))
        with_shape(self.out, node.name, np.shape(value))

    # Marks ---------------------------------------------------------------------------------------------------------

    def _emit_mark(self, name: str, node: Any) -> None:
        cut, gradient = self.cut_of_mark[name]
        if name == gradient.dense:
            self._emit_dense_mark(cut, name, node)
            return
        # The whole gradient is for the indices' own marks, and for readers of its shape.
        self._clone(node, name, [*data_inputs(node), *self._controls(node)], (MARK,))
        if name == gradient.dense_shape:
            for shard, part in enumerate(cut.shards):
                self.out.constant(cut.copy(shard, name), list(part.size), tensor_dtype(self.nodes, name))
        if name == gradient.values:
            assert gradient.indices is not None
            self._emit_sparse_marks(cut, gradient.values, gradient.indices)

    def _emit_dense_mark(self, cut: ShardedVariable, name: str, node: Any) -> None:
        dtype = tensor_dtype(self.nodes, name)
        mark = parse_mark(node.attr[MARK].s)
        for shard, part in enumerate(cut.shards):
            local = self._slice(f"{cut.copy(shard, name)}/slice", node.input[0], part.begin, part.size, dtype)
            self._mark(cut.copy(shard, name), local, dtype, mark, self._number(), part.size)
        join(self.out, name, cut.copies(name), cut.bounds, dtype)
        with_shape(self.out, name, cut.shape)

    def _emit_sparse_marks(self, cut: ShardedVariable, values: str, indices: str) -> None:
        dtype, ids_dtype = (tensor_dtype(self.nodes, mark) for mark in (values, indices))
        sources = [self.nodes[mark].input[0] for mark in (values, indices)]
        prefix = f"autodist/partition/{cut.number}/{values}"
        rows = RowsByShard(self.out, prefix, sources[1], ids_dtype, cut.bounds.begins[0])
        parts, local = rows.parts("values", sources[0], dtype), rows.local()
        counts = rows.counts(static_value(self.nodes, sources[1]))
        for shard, part in enumerate(cut.shards):
            row, number = cut.bounds.row_part(shard), self._number()
            own, columns = parts[row], part.size[1:]
            if columns != cut.shape[1:]:
                name = f"{cut.copy(shard, values)}/columns"
                own = self._slice(name, own, (0, *part.begin[1:]), (None, *columns), dtype)
            for mark, tensor, kind, shape in (
                (values, own, dtype, (counts[row], *columns)),
                (indices, local[row], ids_dtype, (counts[row],)),
            ):
                old = parse_mark(self.nodes[mark].attr[MARK].s)
                self._mark(cut.copy(shard, mark), tensor, kind, old, number, shape)

    def _number(self) -> int:
        """An unused number of a gradient."""
        self.next_mark += 1
        return self.next_mark - 1

    def _mark(
        self, name: str, tensor: str, dtype: str, old: GradientMark, number: int, shape: tuple[int | None, ...]
    ) -> None:
        self.out.identity(name, tensor, dtype)
        with_shape(self.out, name, shape)
        self.out.nodes[-1].attr[MARK].s = GradientMark(number, old.part, old.late, old.target).encode()

    def _slice(self, name: str, tensor: str, begin: Sequence[int], size: Sequence[int | None], dtype: str) -> str:
        start = self.out.constant(f"{name}/begin", list(begin), "int32")
        count = self.out.constant(f"{name}/size", [-1 if n is None else n for n in size], "int32")
        self.out.add("Slice", name, [tensor, start, count], T=dtype, Index="int32")
        return with_shape(self.out, name, size)

    def _emit_number(self, cut: ShardedVariable, node: Any) -> None:
        variable, given = cut.region.variable.name, tensor_shape(self.nodes, node.input[0]) or ()
        dtype, axes = tensor_dtype(self.nodes, node.name), data_inputs(node)[1:]
        along = static_value(self.nodes, axes[0]) if axes else None
        dims = range(len(given)) if along is None else [int(axis) % len(given) for axis in along.reshape(-1)]
        parts = []
        for shard, part in enumerate(cut.shards):
            self._emit_copy(cut, shard, node.name)
            parts.append(of_part(self.out, node, dims, part, dtype))
        of_all_parts(self.out, node, variable, parts, given, dtype)

    # The parts: copies of the update -------------------------------------------------------------------------------

    def _emit_copy(self, cut: ShardedVariable, shard: int, name: str) -> None:
        node = self.nodes[name]
        if name in self.cut_of_mark or self._read_cut(name) is not None:
            return
        tensors = [self._input(cut, shard, node, k, tensor) for k, tensor in enumerate(data_inputs(node))]
        without = (MARK, "_output_shapes", "output_shapes", "_class")
        self._clone(node, cut.copy(shard, name), [*tensors, *self._controls(node, cut, shard)], without)

    def _input(self, cut: ShardedVariable, shard: int, node: Any, position: int, tensor: str) -> str:
        """The input of a shard's copy of a node."""
        name, index = split_tensor(tensor)
        if name in self.analysis.handle_of:
            return cut.copy(shard, self.analysis.handle_of[name])
        domains = cut.region.domains.get(name, ())
        if index < len(domains):
            return cut.copy(shard, tensor)
        if node.op.startswith("UnsortedSegment") and position == _SEGMENT_COUNT:
            label = cut.copy(shard, f"{node.name}/rows")
            return self.out.constant(label, cut.shards[shard].size[0], tensor_dtype(self.nodes, tensor))
        return self._outside(cut, shard, tensor) if is_aligned(node.op) else tensor

    def _outside(self, cut: ShardedVariable, shard: int, tensor: str) -> str:
        """A shard's part of a tensor from outside of the update: cut where it has the variable's dims."""
        shape = tensor_shape(self.nodes, tensor)
        assert shape is not None, tensor
        offset = len(cut.shape) - len(shape)
        part = cut.shards[shard]
        begin, size = [0] * len(shape), list(shape)
        for dim, count in enumerate(shape):
            if count == cut.shape[dim + offset]:
                begin[dim], size[dim] = part.begin[dim + offset], part.size[dim + offset]
        if size == list(shape):
            return tensor
        key = (cut.number, shard, tensor)
        if key not in self.sliced:
            name, index = split_tensor(tensor)
            label = f"{cut.copy(shard, name)}/slice_{index}"
            self.sliced[key] = self._slice(label, tensor, begin, size, tensor_dtype(self.nodes, tensor))
        return self.sliced[key]
