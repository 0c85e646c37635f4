"""Gradients of a step that replicas share tensor by tensor: where they are joined, and which need no joining."""

from __future__ import annotations

from collections.abc import Callable

from autodist.graph import ID_DTYPE, NodeList, Role, TrainingGraph, tensor_dtype, tensor_shape
from autodist.graph.layouts import WHOLE, BatchPlan, Layout, Partial, Whole
from autodist.kernels._base import Combine, SyncPoint
from autodist.kernels._base import Layout as Workers
from autodist.kernels.replicate._exchange import Exchanges
from autodist.kernels.replicate._group_joins import GroupJoins


class SharedGradients:
    """Adds the marks of gradients.

    Args:
        graph: The step.
        plan: How replicas share it.
        out: Where to add nodes.
        workers: This worker among all.
        exchanges: Adds the nodes that bring tensors into other layouts.
        value: The tensors of this worker that are one in a layout.
        groups: Where groups of replicas meet; None where there is one.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        plan: BatchPlan,
        out: NodeList,
        workers: Workers,
        exchanges: Exchanges,
        value: Callable[[str, Layout], list[str]],
        groups: GroupJoins | None,
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._out = out
        self._layout = workers
        self._exchanges = exchanges
        self._value = value
        self._groups = groups
        self._analysis = graph.analysis
        self._nodes = graph.analysis.nodes
        self._points: list[SyncPoint] = []

    def points(self) -> list[SyncPoint]:
        """Add the marks; returns the points at which replicas meet."""
        shapes = {v.name: v.shape for v in self._graph.variables}
        inner = self._inner_marks()
        for variable in sorted(self._graph.variables, key=lambda v: v.backward_order):
            for gradient in variable.gradients if variable.role is Role.TRAINABLE else ():
                marks = [m for m in gradient.tensors if m in self._plan.marks]
                if marks and marks[0] in self._plan.tiled.gradients:
                    self._own_gradient(variable.name, tuple(marks), shapes[variable.name])
                    continue
                receiver = None if inner.intersection(marks) else variable.name
                if marks and self._analysis.marks[marks[0]].part == "dense":
                    self._join_dense(marks[0], receiver, shapes[variable.name])
                elif marks:
                    self._join_rows(tuple(marks), receiver)
        return self._points

    def _own_gradient(self, variable: str, marks: tuple[str, ...], shape: tuple[int | None, ...]) -> None:
        """Add the gradient of a part of a tiled variable, which only one replica of each group has."""
        own = {mark: self._plan.tiled.gradients[mark] for mark in marks}
        replica = own[marks[0]].part - self._layout.first_replica
        if replica not in range(len(self._layout.local_replicas)):
            self._gradient_elsewhere(marks, shape)
            return
        values = [self._value(own[mark].source, own[mark].layout) for mark in marks]
        is_whole = [isinstance(own[mark].layout, Whole) for mark in marks]
        found = tuple(given[0 if whole else replica] for given, whole in zip(values, is_whole, strict=True))
        if self._groups is not None:
            self._points.append(self._groups.of_part(variable, marks, found, shape))
            return
        for mark, tensor in zip(marks, found, strict=True):
            self._out.identity(mark, tensor, tensor_dtype(self._nodes, mark))

    def _gradient_elsewhere(self, marks: tuple[str, ...], shape: tuple[int | None, ...]) -> None:
        """Add zeros, or no rows, as the gradient of another worker's part, which is not updated here."""
        for mark in marks:
            none = {"dense": shape, "values": (0, *shape[1:])}.get(self._analysis.marks[mark].part, (0,))
            sizes = self._out.constant(f"{mark}/sizes", list(none), "int32")
            zero = self._out.constant(f"{mark}/zero", 0, tensor_dtype(self._nodes, mark))
            kinds = {"T": tensor_dtype(self._nodes, mark), "index_type": "int32"}
            self._out.add("Fill", mark, [sizes, zero], **kinds)

    def _inner_marks(self) -> set[str]:
        """Marks of gradients from which others are computed: all workers need their values."""
        marks = list(self._plan.marks)
        reached = self._analysis.reached(marks)
        return {m for k, m in enumerate(marks) if any(reached.get(o, 0) >> k & 1 for o in marks if o != m)}

    def _join_dense(self, mark: str, variable: str | None, shape: tuple[int | None, ...]) -> None:
        dtype, source = tensor_dtype(self._nodes, mark), self._nodes[mark].input[0]
        groups, is_whole = self._groups, isinstance(self._plan.marks[mark], Whole)
        if is_whole and groups is None:  # every worker has it
            self._out.identity(mark, self._value(source, WHOLE)[0], dtype)
            return
        terms = self._value(source, WHOLE if is_whole else Partial())
        if groups is not None and is_whole:
            terms = [groups.part_of_worker(mark, terms[0], dtype)]
        elif groups is not None:
            terms = [groups.gradient(mark, term, dtype, r) for r, term in enumerate(terms)]
        local = self._out.sum(f"autodist/local/{mark}", terms, dtype)
        self._out.identity(mark, local, dtype)
        parts = () if is_whole else tuple((term,) for term in terms)
        self._points.append(SyncPoint(mark, variable, Combine.SUM, (local,), (mark,), (dtype,), (shape,), parts=parts))

    def _rows_given(self, mark: str) -> list[str]:
        tensor, layout = self._nodes[mark].input[0], self._plan.marks[mark]
        values = self._value(tensor, layout)
        return self._exchanges.rows_once(mark, values[0]) if isinstance(layout, Whole) else values

    def _weighted_rows(self, marks: tuple[str, ...], dtypes: tuple[str, ...]) -> list[list[str]]:
        """By mark, the rows of each replica; of two factors, the first that can be weighted is."""
        found = [self._rows_given(mark) for mark in marks]
        if self._groups is not None and self._analysis.marks[marks[0]].part == "values":
            return [
                [self._groups.rows(mark, rows, dtype, r) for r, rows in enumerate(given)]
                for mark, given, dtype in zip(marks, found, dtypes, strict=True)
            ]
        if self._groups is not None:
            k = next(k for k, dtype in enumerate(dtypes) if dtype != ID_DTYPE)
            weighted = (self._groups.gradient(marks[k], rows, dtypes[k], r) for r, rows in enumerate(found[k]))
            found[k] = list(weighted)
        return found

    def _join_rows(self, marks: tuple[str, ...], variable: str | None) -> None:
        order = {"values": 0, "left": 0, "indices": 1, "right": 1}
        marks = tuple(sorted(marks, key=lambda mark: order[self._analysis.marks[mark].part]))
        dtypes = tuple(tensor_dtype(self._nodes, mark) for mark in marks)
        found = self._weighted_rows(marks, dtypes)
        local = tuple(
            self._out.concat(f"autodist/local/{mark}", rows, dtype)
            for mark, rows, dtype in zip(marks, found, dtypes, strict=True)
        )
        for mark, tensor, dtype in zip(marks, local, dtypes, strict=True):
            self._out.identity(mark, tensor, dtype)
        parts = tuple(zip(*found, strict=True))
        are_factors = self._analysis.marks[marks[0]].part == "left"
        shapes = tuple(tensor_shape(self._nodes, mark) if are_factors else None for mark in marks)
        if variable is not None:
            self._points.append(
                SyncPoint(marks[0], variable, Combine.CONCAT, local, marks, dtypes, shapes, parts=parts)
            )
            return
        for mark, tensor, dtype in zip(marks, local, dtypes, strict=True):
            self._points.append(SyncPoint(mark, None, Combine.CONCAT, (tensor,), (mark,), (dtype,), (None,)))
