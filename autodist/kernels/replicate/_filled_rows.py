"""Operators that need rows, on replicas that have none: they get one row of zeros, which adds nothing.

Without rows, oneDNN's convolution returns a tensor of its input's shape, its fused gradient of the filter returns
nothing, which ends the step, and ``MirrorPad`` fails. If there are rows, TensorFlow passes the tensors on unchanged.
"""

from __future__ import annotations

from typing import Any

from autodist.graph import NodeList, tensor_dtype
from autodist.graph.layouts import BatchPlan, Cut, Multiple, Rows, Way
from autodist.graph.operators import meaning
from autodist.kernels._base import Layout
from autodist.kernels.replicate._batch_rows import BatchRows


class FilledRows:
    """Adds the nodes that fill and empty.

    Args:
        nodes: The flat step, by name.
        plan: How its tensors are shared.
        out: Where to add nodes.
        layout: This worker among all.
        rows: How many rows each replica has.
    """

    def __init__(self, nodes: dict[str, Any], plan: BatchPlan, out: NodeList, layout: Layout, rows: BatchRows) -> None:
        self._nodes = nodes
        self._plan = plan
        self._out = out
        self._layout = layout
        self._rows = rows
        self._made: dict[tuple[str, int], str] = {}

    def is_needed(self, node: Any, way: Way) -> bool:
        """Whether a replica's copy of a node must have rows; a copy whose input gives their number gives as many."""
        told = (entry for entries in way.lengths.values() for entry in entries)
        return meaning(node.op).needs_rows and not any(isinstance(entry, Rows) for entry in told)

    def filled(self, value: str, tensor: str, cut: Cut, replica: int) -> str:
        """A replica's rows of a tensor, or a row of zeros if it has none."""
        if (value, replica) not in self._made:
            name = f"replica_{replica}/autodist/filled/{value.replace(':', '_')}"
            device, row = self._layout.replica_device(replica), self._row_along(tensor, cut)
            paddings = self._out.constant(f"{name}/behind", [(0, max(0, entry)) for entry in row], "int32")
            missing = self._out.add("Mul", f"{name}/paddings", [paddings, self._missing(replica)], T="int32")
            dtype = tensor_dtype(self._nodes, tensor)
            zero = self._out.constant(f"{name}/zero", 0, dtype)
            kinds = {"T": dtype, "Tpaddings": "int32", "device": device}
            # Not `Pad`: oneDNN fuses it with a convolution that follows, which does not pad the batch.
            self._made[value, replica] = self._out.add("PadV2", name, [value, missing, zero], **kinds)
        return self._made[value, replica]

    def emptied(self, made: str, tensor: str, cut: Cut, replica: int) -> str:
        """As many rows of the result of filled inputs as the replica has."""
        row = self._row_along(tensor, cut)
        name = f"{made.replace(':', '_')}/emptied"
        begin = self._out.constant(f"{name}/begin", [0] * len(row), "int32")
        size = self._rows.entries([entry if entry < 0 else Rows(entry) for entry in row], replica, "int32")
        kinds = {
            "T": tensor_dtype(self._nodes, tensor),
            "Index": "int32",
            "device": self._layout.replica_device(replica),
        }
        return self._out.add("Slice", name, [made, begin, size], **kinds)

    def _row_along(self, tensor: str, cut: Cut) -> list[int]:
        """How long a row is along the dim that is cut; -1 for each other dim."""
        shape = self._plan.shapes.shape(tensor) or ()
        return [length.times if d == cut.dim and isinstance(length, Multiple) else -1 for d, length in enumerate(shape)]

    def _missing(self, replica: int) -> str:
        """1 for a replica without rows, 0 for all others."""
        if ("", replica) not in self._made:
            name = f"autodist/missing_{replica}"
            zero, one = (self._out.constant(f"{name}/{n}", n, "int32") for n in (0, 1))
            less = self._out.add("Sub", f"{name}/less", [one, self._rows.own(replica)], T="int32")
            self._made["", replica] = self._out.add("Maximum", name, [less, zero], T="int32")
        return self._made["", replica]
