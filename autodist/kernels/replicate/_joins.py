"""Where replicas meet: how their values of a tensor become that of the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autodist.graph import (
    ID_DTYPE,
    BatchScaling,
    GraphIndex,
    NodeList,
    Role,
    StepAnalysis,
    data_inputs,
    node_of,
    split_tensor,
    tensor_dtype,
    tensor_label,
    tensor_shape,
)
from autodist.kernels._base import Combine, DistributedGraph, SyncPoint
from autodist.kernels.replicate._batch_rows import FirstRows, sizes_without_rows
from autodist.kernels.replicate._constant_parts import has_constant_part, linear_inputs
from autodist.kernels.replicate._demand import NodeDemand
from autodist.kernels.replicate._same_batches import compare_batches
from autodist.kernels.replicate._shares import BatchShares
from autodist.kernels.replicate._weights import GradientWeights

ROWS = "autodist/rows"
"""The placeholder for the numbers of examples of the local replicas."""

ROWS_POINT = "rows"
"""The point at which workers tell each other how many examples their replicas have."""

TOTAL = "autodist/total"
"""The size of the global batch."""


class ReplicaJoins:
    """Adds the nodes that join the replicas of a worker, and notes where workers have to be joined.

    Args:
        analysis: The flat step.
        demand: Which tensors are to be joined.
        graph: The step before replication.
        out: Where to add nodes.
        gradient_reduction: ``auto``, ``mean`` or ``sum``.
        own_state: Whether values other than gradients are joined over this worker's replicas only.
        is_placed: Whether replicas need to know where in the batch their rows lie.
    """

    def __init__(
        self,
        analysis: StepAnalysis,
        demand: NodeDemand,
        graph: DistributedGraph,
        out: NodeList,
        gradient_reduction: str,
        own_state: bool,
        is_placed: bool = False,
    ) -> None:
        self.analysis = analysis
        self.demand = demand
        self.out = out
        self.points: list[SyncPoint] = []
        self.renamed: dict[str, str] = {}
        self.checks: tuple[str, ...] = ()
        self._graph = graph
        self._shapes = {v.name: v.shape for v in graph.variables}
        self._layout = graph.layout
        self._count = len(graph.layout.local_replicas)
        self._shares = BatchShares(out, self._count, graph.layout.num_replicas, graph.layout.is_idle)
        self._weights = GradientWeights(analysis, demand, gradient_reduction)
        self._own_state = own_state
        self._is_placed = is_placed
        self.first_rows: FirstRows | None = None
        self._state_share = "own" if own_state else "share"

    def build(self) -> None:
        """Add the batch's shares, then all joins: small state first, gradients in backward order."""
        if not self.analysis.split:
            return  # without a batch all workers compute the same, and exchange nothing
        local_rows = self._shares.add_rows(ROWS)
        if self._own_state:
            self._shares.add_guessed_total(TOTAL, local_rows, self._layout.num_replicas)
        else:
            self._shares.add_total(TOTAL, self._all_rows(local_rows))
            if self._layout.world_size > 1:
                total = self._shares.total
                self.checks = (compare_batches(self.out, self._layout.world_size, total, self._joined_pair),)
        gradients, others = self._sorted_cuts()
        for tensor in others:
            if tensor in self.analysis.joined:
                self._join_in_step(tensor)
            else:
                self._join_state(tensor, self.demand.cuts[tensor])
        for variable, parts in gradients:
            self._join_gradient(variable, parts)

    def _all_rows(self, local_rows: str) -> str:
        """The number of examples of all workers."""
        if not self._is_placed:
            return self._point("rows", None, Combine.SUM, (local_rows,), ("float32",), ((),))[0]
        counts = ROWS
        if self._layout.world_size > 1:
            local = self.out.identity("autodist/counts", ROWS, "float32")
            counts = self._point("rows", None, Combine.CONCAT, (local,), ("float32",), (None,))[0]
        self.first_rows = FirstRows(self.out, self._layout, counts, TOTAL)
        dim = self.out.constant(f"{TOTAL}/dim", [0], "int32")
        return self.out.add("Sum", f"{TOTAL}/sum", [counts, dim], T="float32", Tidx="int32", keep_dims=False)

    def _joined_pair(self, label: str, local: str) -> str:
        return self._point(label, None, Combine.SUM, (local,), ("float32",), ((2,),))[0]

    def replica_tensor(self, tensor: str, replica: int) -> str:
        """A replica's own copy of a tensor; the worker's, where it does not depend on the batch."""
        name, index = split_tensor(tensor)
        if name not in self.analysis.scalings:
            return self.renamed.get(tensor, tensor)
        return f"replica_{replica}/{name}" + (f":{index}" if index > 0 else "")

    def factor(self, name: str, replica: int) -> tuple[str, str] | None:
        """The op and the number by which a gradient is multiplied or divided that a replica computes with."""
        op = self._weights.exchanged(name)
        if op is None:
            return None
        return op, self._shares.scalar("share", replica, tensor_dtype(self.analysis.nodes, name))

    def borrowed(self, name: str, placeholder: Any) -> tuple[str, str]:
        """A placeholder for an example of an input, and the rows of it that replicas without examples take.

        Args:
            name: The input.
            placeholder: Its node in G.
        """
        dtype, shape = tensor_dtype(self.analysis.nodes, name), placeholder.attr["shape"].shape
        # It is fed only where it is needed. TensorFlow's optimizer may make nodes wait for the feed that replaces the
        # borrowed rows, and then computes these too: so there is always a default, without rows.
        none = self.out.constant(f"autodist/borrowed/{name}/none", np.zeros(sizes_without_rows(shape)), dtype)
        example = self.out.add("PlaceholderWithDefault", f"autodist/borrowed/{name}", [none], dtype=dtype)
        self.out.nodes[-1].attr["shape"].shape.CopyFrom(shape)
        begin = self.out.constant(f"{example}/begin", [0], "int32")
        stride = self.out.constant(f"{example}/stride", [1], "int32")
        inputs = [example, begin, self._shares.some_if_any(f"{example}/count"), stride]
        return example, self.out.add("StridedSlice", f"{example}/rows", inputs, T=dtype, Index="int32")

    # What is joined ----------------------------------------------------------------------------------------------

    def _sorted_cuts(self) -> tuple[list[tuple[str, tuple[str, ...]]], list[str]]:
        """Gradients (variable and marks) in backward order, then the other tensors."""
        gradients = [
            (v.name, tuple(m for m in gradient.tensors if m in self.demand.cuts))
            for v in sorted(self._graph.variables, key=lambda v: v.backward_order)
            if v.role is Role.TRAINABLE
            for gradient in v.gradients
        ]
        marks = {mark for _, parts in gradients for mark in parts}
        others = sorted(tensor for tensor in self.demand.cuts if tensor not in marks)
        return [(variable, parts) for variable, parts in gradients if parts], others

    def _join_gradient(self, variable: str, marks: tuple[str, ...]) -> None:
        kinds = {self.analysis.marks[mark].part: mark for mark in marks}
        # Replicas compute with an intermediate gradient, so all workers get it, wherever the variable is.
        receiver = None if self.demand.intermediate & set(marks) else variable
        if "dense" in kinds:
            self._join_dense_gradient(receiver, kinds["dense"], self._shapes[variable])
        if "dense_shape" in kinds:  # the variable's on every replica
            mark = kinds["dense_shape"]
            self.out.identity(mark, self._source(mark, 0), tensor_dtype(self.analysis.nodes, mark))
        sparse = tuple(kinds[part] for part in ("values", "indices") if part in kinds)
        if sparse and not self.demand.is_of_same_rows(sparse[0]):
            self._join_sparse_gradient(receiver, sparse)
        elif sparse:
            shape = tensor_shape(self.analysis.nodes, sparse[0])
            # What travels to a variable has its shape on all workers; what all workers get may have any.
            self._join_dense_gradient(None if shape is None or None in shape else receiver, sparse[0], shape)
        if "left" in kinds:
            self._join_factors(receiver, (kinds["left"], kinds["right"]))

    def _source(self, mark: str, replica: int) -> str:
        return self.replica_tensor(self.analysis.nodes[mark].input[0], replica)

    def _join_dense_gradient(self, variable: str | None, mark: str, shape: tuple[int | None, ...] | None) -> None:
        dtype = tensor_dtype(self.analysis.nodes, mark)
        terms = self._terms(mark, self.analysis.nodes[mark].input[0], self._weights.of(mark), "share", dtype)
        local = self.out.sum(f"autodist/local/{mark}", terms, dtype)
        parts = tuple((term,) for term in terms)
        self._point(mark, variable, Combine.SUM, (local,), (dtype,), (shape,), synced=(mark,), parts=parts)

    def _join_sparse_gradient(self, variable: str | None, marks: tuple[str, ...]) -> None:
        local, dtypes, rows = [], [], []
        for mark in marks:
            dtype = tensor_dtype(self.analysis.nodes, mark)
            source = self.analysis.nodes[mark].input[0]
            is_values = self.analysis.marks[mark].part == "values"
            rows.append(self._rows(mark, source, dtype, self._weights.of(mark) if is_values else None))
            local.append(self.out.concat(f"autodist/local/{mark}", rows[-1], dtype))
            dtypes.append(dtype)
        shapes = (None,) * len(marks)
        if variable is not None:
            parts = tuple(zip(*rows, strict=True))
            self._point(marks[0], variable, Combine.CONCAT, tuple(local), tuple(dtypes), shapes, marks, parts)
            return
        for mark, tensor, dtype in zip(marks, local, dtypes, strict=True):
            self._point(mark, None, Combine.CONCAT, (tensor,), (dtype,), (None,), synced=(mark,))

    def _join_factors(self, variable: str | None, marks: tuple[str, str]) -> None:
        """Join the rows of two factors, the smaller of which carries the weight; ids can't be weighted."""
        shapes = [tensor_shape(self.analysis.nodes, mark) for mark in marks]
        dtypes = tuple(tensor_dtype(self.analysis.nodes, mark) for mark in marks)
        weighted = min((k for k in range(2) if dtypes[k] != ID_DTYPE), key=lambda k: shapes[k] or ())
        weight = self._weights.of(marks[weighted])
        rows = [
            self._rows(mark, self.analysis.nodes[mark].input[0], dtype, weight if k == weighted else None)
            for k, (mark, dtype) in enumerate(zip(marks, dtypes, strict=True))
        ]
        local = tuple(
            self.out.concat(f"autodist/local/{mark}", parts, dtype)
            for mark, parts, dtype in zip(marks, rows, dtypes, strict=True)
        )
        parts = tuple(zip(*rows, strict=True))
        self._point(marks[0], variable, Combine.CONCAT, local, dtypes, tuple(shapes), marks, parts)

    def _join_in_step(self, name: str) -> None:
        """Join a gradient that the replicas compute with."""
        nodes, source = self.analysis.nodes, self.analysis.nodes[name].input[0]
        dtype, shape = tensor_dtype(nodes, name), tensor_shape(nodes, name)
        local = self._weighted_sum(name, source, self._weights.behind(name), dtype)
        self._point(name, None, Combine.SUM, (local,), (dtype,), (shape,), synced=(name,))

    def _join_state(self, tensor: str, scaling: BatchScaling) -> None:
        dtype = tensor_dtype(self.analysis.nodes, tensor)
        label = tensor_label(tensor)
        shape = tensor_shape(self.analysis.nodes, tensor)
        if scaling is BatchScaling.SAME:
            self.renamed[tensor] = self.replica_tensor(tensor, 0)
        elif scaling is BatchScaling.SHAPE:
            self.renamed[tensor] = self._joined_shape(label, tensor, dtype)
        elif scaling in (BatchScaling.ROWS, BatchScaling.SUBSET):
            dim = _batch_dim(shape)
            local = self.out.concat(f"autodist/local/{label}", self._rows(label, tensor, dtype, None, dim), dtype, dim)
            self.renamed[tensor] = self._point(label, None, Combine.CONCAT, (local,), (dtype,), (shape,))[0]
        else:
            weight = self._state_share if scaling is BatchScaling.MEAN else "active"
            local = self._weighted_sum(label, tensor, weight, dtype)
            self.renamed[tensor] = self._point(label, None, Combine.SUM, (local,), (dtype,), (shape,))[0]

    def _joined_shape(self, label: str, tensor: str, dtype: str) -> str:
        """The shape of the joined rows: the sum of the replicas' shapes, with the static dims put right."""
        static = self.analysis.dependence.static_shape(tensor)
        assert static is not None, tensor
        local = self._weighted_sum(label, tensor, "active", dtype)
        total = self._point(label, None, Combine.SUM, (local,), (dtype,), ((len(static),),))[0]
        varying = self.out.constant(f"{total}/varying", [size is None for size in static], dtype)
        fixed = self.out.constant(f"{total}/fixed", [size or 0 for size in static], dtype)
        batch = self.out.add("Mul", f"{total}/batch", [total, varying], T=dtype)
        return self.out.add("AddV2", f"{total}/shape", [batch, fixed], T=dtype)

    # How they are joined -----------------------------------------------------------------------------------------

    def _weighted_sum(self, label: str, tensor: str, weight: str, dtype: str) -> str:
        terms = self._terms(label, tensor, weight, self._state_share, dtype)
        return self.out.sum(f"autodist/local/{label}", terms, dtype)

    def _terms(self, label: str, tensor: str, weight: str, share: str, dtype: str) -> list[str]:
        """The replicas' terms of a sum."""
        return [
            self._term(f"replica_{r}/autodist/weighted/{label}", tensor, weight, share, dtype, r)
            for r in range(self._count)
        ]

    def _term(self, name: str, tensor: str, weight: str, share: str, dtype: str, replica: int) -> str:
        """One replica's term of a sum. Terms that do not depend on the batch, which all have, are weighted by share."""
        node = self.analysis.nodes[node_of(tensor)]
        if weight == "active" and has_constant_part(self.analysis, tensor):
            return self._of_terms(name, tensor, share, replica)
        kind = weight if node.name in self.analysis.scalings else share
        factor = self._shares.scalar(kind, replica, dtype)
        return self._times(name, self.replica_tensor(tensor, replica), factor, dtype, replica)

    def _of_terms(self, name: str, tensor: str, share: str, replica: int) -> str:
        """The result of a linear operator for one replica's terms."""
        node, index = self.analysis.nodes[node_of(tensor)], split_tensor(tensor)[1]
        inputs = [self.replica_tensor(t, replica) for t in data_inputs(node)]
        for k in linear_inputs(self.analysis, node):
            term, dtype = data_inputs(node)[k], tensor_dtype(self.analysis.nodes, data_inputs(node)[k])
            inputs[k] = self._term(f"{name}/{k}", term, "active", share, dtype, replica)
        self.out.clone(node, name, inputs, device=self._layout.replica_device(replica))
        return f"{name}:{index}" if index else name

    def _times(self, name: str, tensor: str, factor: str, dtype: str, replica: int) -> str:
        """A replica's values times a factor; without examples the product is 0, even if values are NaN."""
        is_whole = dtype.startswith(("int", "uint"))
        return self.out.add(
            "Mul" if is_whole else "MulNoNan",
            name,
            [tensor, factor],
            T=dtype,
            device=self._layout.replica_device(replica),
        )

    def _rows(self, label: str, tensor: str, dtype: str, weight: str | None, dim: int = 0) -> list[str]:
        """The rows of each active replica, perhaps weighted."""
        parts = []
        for r in range(self._count):
            part = self.replica_tensor(tensor, r)
            if weight is not None:
                scaled = f"replica_{r}/autodist/weighted/{label}"
                factor = self._shares.scalar(weight, r, dtype)
                part = self._times(scaled, part, factor, dtype, r)
            parts.append(self._active_rows(f"replica_{r}/autodist/rows/{label}", part, dtype, r, dim))
        return parts

    def _active_rows(self, name: str, tensor: str, dtype: str, replica: int, dim: int) -> str:
        """All rows, or none for a replica that only borrowed an example."""
        zeros, ones = [0] * (dim + 1), [1] * (dim + 1)
        begin = self.out.constant(f"{name}/begin", zeros, "int32")
        stride = self.out.constant(f"{name}/stride", ones, "int32")
        limit = self._shares.limit(replica, dim)
        return self.out.add(
            "StridedSlice",
            name,
            [tensor, begin, limit, stride],
            T=dtype,
            Index="int32",
            device=self._layout.replica_device(replica),
            begin_mask=(1 << dim) - 1,
            end_mask=(1 << dim) - 1,
        )

    def _point(
        self,
        label: str,
        variable: str | None,
        combine: Combine,
        local: tuple[str, ...],
        dtypes: tuple[str, ...],
        shapes: tuple[tuple[int | None, ...] | None, ...],
        synced: tuple[str, ...] | None = None,
        parts: tuple[tuple[str, ...], ...] = (),
    ) -> tuple[str, ...]:
        names = synced or (f"autodist/synced/{label}",)
        for name, tensor, dtype in zip(names, local, dtypes, strict=True):
            self.out.identity(name, tensor, dtype)
        if self._own_state and variable is None:
            return names
        self.points.append(SyncPoint(label, variable, combine, local, names, dtypes, shapes, parts=parts))
        return names


def with_layers(index: GraphIndex, points: Sequence[SyncPoint]) -> tuple[SyncPoint, ...]:
    """The points with their layers, and whether others depend on them: a point depends on those of lower layers only.

    Gradients have one layer, unless one depends on another: it comes after that of the last state on their way,
    so that what the replicas join in the middle of a step does not part the groups in which gradients travel.
    """
    kind = {name: point.variable is not None for point in points for name in point.synced}
    depths: dict[str, tuple[int, int]] = {}
    for name in index.order:
        depth = max([depths[source] for source in index.needs[name] if source in depths], default=(0, 0))
        depths[name] = depth if name not in kind else (depth[0] + 1, 0) if kind[name] else (depth[0], depth[1] + 1)
    place = {p.name: max((depths[name], p.variable is not None) for name in p.synced) for p in points}
    layers = {found: k for k, found in enumerate(sorted(set(place.values())))}
    before = index.ancestors(source for name in kind for source in index.needs[name])
    return tuple(replace(p, layer=layers[place[p.name]], awaited=not before.isdisjoint(p.synced)) for p in points)


def _batch_dim(shape: tuple[int | None, ...] | None) -> int:
    return shape.index(None) if shape and None in shape else 0
