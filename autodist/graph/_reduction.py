"""How the gradients of several replicas make that of the whole batch: it follows from what was differentiated."""

from __future__ import annotations

from typing import Literal, TypeAlias

from autodist.graph._dependence import BatchDependence
from autodist.graph._extent import Extent
from autodist.graph._graph_def import data_inputs, node_of

__all__ = ["Reduction", "reduction_of"]

Reduction: TypeAlias = Literal["mean", "sum"]

_ADDITIONS = frozenset({"Add", "AddV2", "AddN", "Sub"})
_SCALINGS = frozenset({"Identity", "Cast", "Neg", "Reshape", "Mul", "RealDiv", "DivNoNan"})
_BY_EXTENT: dict[Extent, Reduction] = {
    Extent.MEAN: "mean",
    Extent.SUM: "sum",
    Extent.COUNT: "sum",
    Extent.ROWS: "sum",  # gradients of a tensor are those of the sum of its elements
    Extent.SUBSET: "sum",
}


def reduction_of(dependence: BatchDependence, tensor: str) -> Reduction | None:
    """Whether replicas average or add their gradients of a tensor; None where neither is right.

    Terms that do not depend on the batch, such as regularizers, leave the choice to the others.
    """
    found = _reductions(dependence, tensor)
    if None in found or len(found) > 1:
        return None
    return found.pop() if found else "mean"


def _reductions(dependence: BatchDependence, tensor: str) -> set[Reduction | None]:
    extent = dependence.extent(tensor)
    if extent in (Extent.CONSTANT, Extent.SAME):
        return set()
    if extent in _BY_EXTENT:
        return {_BY_EXTENT[extent]}
    node = dependence.nodes[node_of(tensor)]
    varying = [t for t in data_inputs(node) if dependence.extent(t) is not Extent.CONSTANT]
    if node.op in _ADDITIONS or (node.op in _SCALINGS and len(varying) == 1 and varying[0] == data_inputs(node)[0]):
        return {reduction for t in varying for reduction in _reductions(dependence, t)}
    return {None}
