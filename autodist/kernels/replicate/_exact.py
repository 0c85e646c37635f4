"""Whether several replicas together give what one device gives, for steps that train nothing."""

from __future__ import annotations

from autodist.graph import TrainingGraph
from autodist.graph.operators import Kind, is_kind, meaning
from autodist.kernels.replicate._demand import NodeDemand


def why_not_exact(graph: TrainingGraph) -> str | None:
    """Why the replicas' results can't be joined to those of one device on the whole batch; None if they can.

    Args:
        graph: A step that takes no gradient.
    """
    ops = {node.op for node in graph.graph_def.node}
    ops |= {node.op for function in graph.graph_def.library.function for node in function.node_def}
    drawing = sorted(op for op in ops if is_kind(op, Kind.RANDOM))
    if drawing:
        return f"it draws random numbers (op {drawing[0]}), and each replica draws others"
    calling = sorted(op for op in ops if meaning(op).calls_python)
    if calling:
        return f"it calls Python (op {calling[0]}), which may do anything with a batch"
    if any(output.dtype == "string" for output in graph.outputs):
        return "it returns strings, which not everything that joins workers carries"
    if any(output.shape is None for output in graph.outputs):
        return "it returns tensors of unknown rank"
    demand = NodeDemand(graph.analysis, graph)
    met = next(iter(sorted(demand.inexact)), None)
    if met is None:
        return None
    return (
        f"examples of a batch meet before op `{met}` ({demand.analysis.nodes[met].op}), and it can't be computed apart"
    )
