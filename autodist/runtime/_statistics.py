"""Statistics of workers that don't wait for each other in their steps: those that become the same when they meet."""

from __future__ import annotations

from autodist.graph import BatchScaling, Role, TrainingGraph, data_inputs


def averages(graph: TrainingGraph) -> list[str]:
    """Names of the variables that a step makes from means of its batch, as batch normalization its moving statistics.

    Not those that it makes from sums and counts, such as metrics: their average over workers would mean nothing.
    """
    analysis = graph.analysis
    found: dict[str, set[BatchScaling]] = {}
    for write in analysis.writes.values():
        scalings = {analysis.scaling(tensor) for tensor in data_inputs(analysis.nodes[write.node])}
        for handle in write.handles:
            found.setdefault(handle, set()).update(scalings)
    wanted = {BatchScaling.MEAN, BatchScaling.MIXED}
    unwanted = {BatchScaling.SUM, BatchScaling.COUNT}
    return [
        v.name
        for v in graph.variables
        if v.role is Role.STATISTIC
        and v.dtype.startswith(("float", "bfloat"))
        and found[v.handle] & wanted
        and not found[v.handle] & unwanted
    ]
