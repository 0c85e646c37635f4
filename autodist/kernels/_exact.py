"""Whether several replicas together give what one device gives, for steps that train nothing."""

from __future__ import annotations

from typing import Any

from autodist.graph import StepAnalysis, TrainingGraph, data_inputs, node_of, output_shape, split_tensor
from autodist.kernels._demand import Demand

__all__ = ["why_not_exact"]

_PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


def why_not_exact(graph: TrainingGraph) -> str | None:
    """Why the replicas' results can't be joined to those of one device on the whole batch; None if they can.

    Args:
        graph: A step that takes no gradient.
    """
    ops = {node.op for node in graph.graph_def.node}
    ops |= {node.op for function in graph.graph_def.library.function for node in function.node_def}
    drawing = sorted(op for op in ops if "Random" in op or op.endswith("Multinomial"))
    if drawing:
        return f"it draws random numbers (op {drawing[0]}), and each replica draws others"
    if ops & _PYTHON:
        return f"it calls Python (op {min(ops & _PYTHON)}), which may do anything with a batch"
    if any(output.dtype == "string" for output in graph.outputs):
        return "it returns strings, which not everything that joins workers carries"
    if any(output.shape is None for output in graph.outputs):
        return "it returns tensors of unknown rank"
    split = [node_of(argument.tensor) for argument in graph.inputs if argument.split]
    analysis = StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], split)
    pairs = next((name for name, node in analysis.nodes.items() if _has_pairs(node, analysis.nodes)), None)
    if pairs is not None:
        return f"it compares examples with each other (op `{pairs}`), and each replica has only some of them"
    return next(iter(Demand(analysis, graph).warnings), None)


def _has_pairs(node: Any, nodes: dict[str, Any]) -> bool:
    """Whether a node makes of two tensors with a row per example one with an entry per pair of examples."""
    inputs = [(nodes[name], index) for name, index in map(split_tensor, data_inputs(node))]
    rowlike = sum(_num_unknown(other, index) == 1 for other, index in inputs)
    return rowlike > 1 and _num_unknown(node, 0) > 1


def _num_unknown(node: Any, index: int) -> int:
    shape = output_shape(node, index)
    return 0 if shape is None else shape.count(None)
