"""A step that replicas share tensor by tensor, as one worker builds it: all that adds nodes to it needs the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph import NodeList
from autodist.graph.layouts import BatchPlan
from autodist.kernels._base import Layout
from autodist.kernels.replicate._batch_rows import BatchRows
from autodist.kernels.replicate._replica_points import ReplicaPoints


@dataclass(frozen=True)
class SharedStep:
    """A step as one worker builds it.

    Attributes:
        nodes: The flat step, by name.
        plan: How its tensors are shared.
        out: Where to add nodes.
        layout: This worker among all.
        rows: Where each replica's rows lie.
        points: Adds points at which workers meet.
    """

    nodes: dict[str, Any]
    plan: BatchPlan
    out: NodeList
    layout: Layout
    rows: BatchRows
    points: ReplicaPoints


class AddsToStep:
    """Adds nodes to a step.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        self._nodes, self._plan, self._out = step.nodes, step.plan, step.out
        self._layout, self._rows, self._points = step.layout, step.rows, step.points

    def _split(self, tensor: str, sizes: Sequence[int] | Sequence[str], dim: int, dtype: str) -> list[str]:
        """The parts of this worker's replicas, one after the other along a dim; nodes are named after the tensor.

        Args:
            tensor: The parts together.
            sizes: The length of each part: numbers, or scalars of ``int32``.
            dim: The dim.
            dtype: The element type.
        """
        count, out = len(sizes), self._out
        if count == 1:
            return [tensor]
        axis = out.constant(f"{tensor}/split/dim", dim, "int32")
        if isinstance(sizes[0], int) and len(set(sizes)) == 1:
            name = out.add("Split", f"{tensor}/split", [axis, tensor], T=dtype, num_split=count)
        else:
            kinds: dict[str, Any] = {"T": dtype, "Tlen": "int32", "num_split": count}
            name = out.add(
                "SplitV", f"{tensor}/split", [tensor, self._vector(f"{tensor}/split/sizes", sizes), axis], **kinds
            )
        return [out.identity(f"{tensor}/part_{r}", f"{name}:{r}" if r else name, dtype) for r in range(count)]

    def _vector(self, name: str, sizes: Sequence[int] | Sequence[str]) -> str:
        if isinstance(sizes[0], int):
            return self._out.constant(name, list(sizes), "int32")
        return self._out.add("Pack", name, [str(size) for size in sizes], N=len(sizes), T="int32", axis=0)
