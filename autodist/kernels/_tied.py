"""Separate: let the terms of tied gradients travel on their own.

The sum of a tied gradient's terms leaves when the backward pass ends, with all bytes of the table. The mark of the sum
gives way to marks on the terms, which are added behind them: so the dense one leaves when it is ready, and at the end
only rows are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autodist.graph import (
    MARK,
    Gradient,
    Mark,
    NodeList,
    TiedGradient,
    TrainingGraph,
    Variable,
    tensor_dtype,
    tied_gradient,
)
from autodist.kernels._rows import with_shape
from autodist.strategies import Strategy

__all__ = ["separate_tied_gradients"]


def separate_tied_gradients(graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
    """G with marks on the terms of the tied gradients that servers get as they are.

    Args:
        graph: G.
        strategy: S, verified.
    """
    wanted = [graph.variable(c.variable) for c in strategy.variables if c.is_served_plainly]
    tied = {v.name: tied_gradient(graph, v) for v in wanted if graph.uses[v.name].tied_rows}
    if not tied:
        return graph, strategy
    graph_def = type(graph.graph_def)()
    graph_def.CopyFrom(graph.graph_def)
    nodes = {node.name: node for node in graph_def.node}
    number = 1 + max(mark.gradient for mark in graph.analysis.marks.values())
    out = NodeList()
    gradients: dict[str, tuple[Gradient, ...]] = {}
    for k, (name, found) in enumerate(tied.items()):
        assert found is not None, name
        gradients[name], total = _separated(out, graph, graph.variable(name), found, number + 2 * k)
        del nodes[found.mark].attr[MARK]
        nodes[found.mark].input[0] = total
    graph_def.node.extend(out.nodes)
    variables = tuple(replace(v, gradients=gradients.get(v.name, v.gradients)) for v in graph.variables)
    return replace(graph, graph_def=graph_def, variables=variables), strategy


def _separated(
    out: NodeList, graph: TrainingGraph, variable: Variable, tied: TiedGradient, number: int
) -> tuple[tuple[Gradient, Gradient], str]:
    """Add the terms behind marks, numbered from `number`, and their sum; returns the gradients and the sum."""
    analysis, prefix, columns = graph.analysis, f"autodist/tied/{tied.mark}", variable.shape[1:]
    old, dtype, ids_dtype = analysis.marks[tied.mark], variable.dtype, tensor_dtype(analysis.nodes, tied.indices)
    first, second = replace(old, gradient=number), replace(old, gradient=number + 1)
    dense = _marked(out, f"{prefix}/dense", out.sum(f"{prefix}/terms", tied.dense, dtype), dtype, variable.shape, first)
    flat = out.reshape(f"{prefix}/flat_values", tied.values, [-1, *columns], dtype)
    values = _marked(out, f"{prefix}/values", flat, dtype, (None, *columns), replace(second, part="values"))
    flat = out.reshape(f"{prefix}/flat_indices", tied.indices, [-1], ids_dtype)
    indices = _marked(out, f"{prefix}/indices", flat, ids_dtype, (None,), replace(second, part="indices"))
    count = out.constant(f"{prefix}/count", variable.shape[0], "int32")
    types = {"T": dtype, "Tindices": ids_dtype, "Tnumsegments": "int32"}
    rows = out.add("UnsortedSegmentSum", f"{prefix}/rows", [values, indices, count], **types)
    with_shape(out, rows, variable.shape)
    total = with_shape(out, out.sum(f"{prefix}/sum", [dense, rows], dtype), variable.shape)
    return (Gradient(dense=dense), Gradient(values=values, indices=indices)), total


def _marked(out: NodeList, name: str, tensor: str, dtype: str, shape: Sequence[int | None], mark: Mark) -> str:
    out.identity(name, tensor, dtype)
    out.nodes[-1].attr[MARK].s = mark.encode()
    return with_shape(out, name, shape)
