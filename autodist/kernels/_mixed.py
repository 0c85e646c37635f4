"""Rows apart: the rows of a mixed gradient travel by themselves, and what else there is in it as soon as it exists.

The mark of a gradient that is a sum of rows and of something dense gives way to marks on the terms; the sum is made
behind them, wherever the update needs it. The dense term then leaves when the backward pass has begun, not when it is
over, and workers don't blow up rows to tables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.graph import (
    MARK,
    AddedRows,
    Gradient,
    Mark,
    MixedGradient,
    NodeList,
    TrainingGraph,
    Variable,
    mixed_gradients,
    output_shape,
    parse_mark,
    split_tensor,
    tensor_dtype,
)
from autodist.kernels._rows import with_shape
from autodist.strategies import Strategy

__all__ = ["set_rows_apart"]


def set_rows_apart(graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
    """G with marks on the terms of mixed gradients where S wants their rows apart, and S without the wish.

    Args:
        graph: G.
        strategy: S, verified: what it wants to be taken apart is mixed.
    """
    wanted = strategy.graph.apart
    if not wanted:
        return graph, strategy
    rewriting = _Rewriting(graph)
    variables = tuple(
        rewriting.apart(v, mixed_gradients(graph, v.name)) if v.name in wanted else v for v in graph.variables
    )
    changed = replace(graph, graph_def=rewriting.graph_def, variables=variables)
    return changed, replace(strategy, graph=replace(strategy.graph, apart=None))


class _Rewriting:
    """Rewrites a copy of the graph, gradient by gradient."""

    def __init__(self, graph: TrainingGraph) -> None:
        self.graph_def = type(graph.graph_def)()
        self.graph_def.CopyFrom(graph.graph_def)
        self._nodes: dict[str, Any] = {node.name: node for node in self.graph_def.node}
        marks = [parse_mark(node.attr[MARK].s) for node in self.graph_def.node if MARK in node.attr]
        self._next_number = 1 + max(mark.gradient for mark in marks)

    def apart(self, variable: Variable, mixed: tuple[MixedGradient, ...]) -> Variable:
        """The variable with a gradient for each term; the graph changes accordingly."""
        by_mark = {gradient.mark: gradient for gradient in mixed}
        gradients: list[Gradient] = []
        for gradient in variable.gradients:
            found = by_mark.get(gradient.dense or "")
            gradients.extend([gradient] if found is None else self._terms(found, variable))
        return replace(variable, gradients=tuple(gradients))

    def _terms(self, gradient: MixedGradient, variable: Variable) -> list[Gradient]:
        """Put marks on the terms, and their sum behind these."""
        out = NodeList()
        prefix = f"autodist/apart/{gradient.mark}"
        mark = parse_mark(self._nodes[gradient.mark].attr[MARK].s)
        dtype = tensor_dtype(self._nodes, gradient.mark)
        others = out.sum(f"{prefix}/others", gradient.others, dtype)
        dense = self._marked(out, f"{prefix}/dense", others, mark, "dense", dtype, variable.shape)
        self._next_number += 1
        parts, terms = [Gradient(dense=dense)], [dense]
        for number, rows in enumerate(gradient.rows):
            values, indices, total = self._rows(out, f"{prefix}/rows_{number}", rows, mark, variable.shape)
            parts.append(Gradient(values=values, indices=indices))
            terms.append(total)
        total = out.sum(f"{prefix}/total", terms, dtype)
        with_shape(out, total, variable.shape)
        self.graph_def.node.extend(out.nodes)
        node = self._nodes[gradient.mark]
        del node.attr[MARK]
        node.input[0] = total
        return parts

    def _rows(
        self, out: NodeList, prefix: str, rows: AddedRows, mark: Mark, shape: tuple[int, ...]
    ) -> tuple[str, str, str]:
        """Marks on rows and their numbers, and what adds them up."""
        marks = []
        for part, tensor in (("values", rows.values), ("indices", rows.indices)):
            name, index = split_tensor(tensor)
            dtype = tensor_dtype(self._nodes, tensor)
            sizes = output_shape(self._nodes[name], index) or (None, *shape[1:])
            marks.append(self._marked(out, f"{prefix}/{part}", tensor, mark, part, dtype, sizes))
        self._next_number += 1
        copy = type(self._nodes[rows.node])()
        copy.CopyFrom(self._nodes[rows.node])
        copy.name = f"{prefix}/sum"
        copy.input[0], copy.input[1] = marks
        out.nodes.append(copy)
        return marks[0], marks[1], copy.name

    def _marked(
        self,
        out: NodeList,
        name: str,
        tensor: str,
        mark: Mark,
        part: str,
        dtype: str,
        shape: tuple[int | None, ...],
    ) -> str:
        out.identity(name, tensor, dtype)
        with_shape(out, name, shape)
        out.nodes[-1].attr[MARK].s = replace(mark, gradient=self._next_number, part=part).encode()
        return name
