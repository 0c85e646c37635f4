"""Operators that need rows, on replicas that have none: they get one row of zeros, which adds nothing.

Without rows, oneDNN's convolution returns a tensor of its input's shape, its fused gradient of the filter returns
nothing, which ends the step, and ``MirrorPad`` fails. If there are rows, TensorFlow passes the tensors on unchanged.
"""

from __future__ import annotations

from typing import Any

from autodist.graph import data_inputs, tensor_dtype, tensor_label
from autodist.graph.layouts import Cut, Layout, Multiple, Partial, Rows, Way
from autodist.graph.operators import meaning
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep


class FilledRows(AddsToStep):
    """Adds the nodes that fill and empty.

    Args:
        step: The step.
        in_groups: Whether it is that of one of several groups of replicas, which may have no rows at all: then tensors
            are filled as well of which each worker of the group has all rows.
    """

    def __init__(self, step: SharedStep, *, in_groups: bool) -> None:
        super().__init__(step)
        self._in_groups = in_groups
        self._made: dict[tuple[str, int | None], str] = {}

    def is_needed(self, node: Any, way: Way) -> bool:
        """Whether a replica's copy of a node must have rows; a copy whose input gives their number gives as many."""
        if not meaning(node.op).needs_rows:
            return False
        told = any(isinstance(entry, Rows) for entries in way.lengths.values() for entry in entries)
        if self._in_groups and not told:
            numbers = (self._plan.shapes.numbers(tensor) or () for tensor in data_inputs(node))
            told = any(isinstance(entry, Multiple) for entries in numbers for entry in entries)
        return not told

    def filled(self, value: str, tensor: str, layout: Layout, replica: int | None) -> str:
        """Rows of a tensor, those of a replica or of a group, or a row of zeros if there are none.

        Args:
            value: What a worker has of the tensor.
            tensor: The tensor of the step.
            layout: How it is shared.
            replica: The local replica that has it; None for the worker.
        """
        row, owner = self._row_along(tensor, layout), self._owner(layout, replica)
        if max(row, default=-1) < 0:
            return value
        if (value, owner) not in self._made:
            name, device = f"{self._scope(owner)}/filled/{tensor_label(value)}", self._device(replica)
            paddings = self._out.constant(f"{name}/behind", [(0, max(0, entry)) for entry in row], "int32")
            missing = self._out.add("Mul", f"{name}/paddings", [paddings, self._missing(owner)], T="int32")
            dtype = tensor_dtype(self._nodes, tensor)
            zero = self._out.constant(f"{name}/zero", 0, dtype)
            kinds = {"T": dtype, "Tpaddings": "int32", "device": device}
            # Not `Pad`: oneDNN fuses it with a convolution that follows, which does not pad the batch.
            self._made[value, owner] = self._out.add("PadV2", name, [value, missing, zero], **kinds)
        return self._made[value, owner]

    def emptied(self, made: str, tensor: str, layout: Layout, replica: int | None) -> str:
        """As many rows of the result of filled inputs as there are; see :meth:`filled`."""
        row, owner = self._row_along(tensor, layout), self._owner(layout, replica)
        if max(row, default=-1) < 0:
            return made
        name = f"{tensor_label(made)}/emptied"
        begin = self._out.constant(f"{name}/begin", [0] * len(row), "int32")
        counted = Multiple if owner is None else Rows
        size = self._rows.entries([entry if entry < 0 else counted(entry) for entry in row], owner, "int32")
        kinds = {"T": tensor_dtype(self._nodes, tensor), "Index": "int32", "device": self._device(replica)}
        return self._out.add("Slice", name, [made, begin, size], **kinds)

    def _owner(self, layout: Layout, replica: int | None) -> int | None:
        """The replica whose rows these are; None for those of all replicas of the group."""
        return replica if isinstance(layout, Cut) else None

    def _scope(self, owner: int | None) -> str:
        return "autodist" if owner is None else f"replica_{owner}/autodist"

    def _device(self, replica: int | None) -> str:
        return self._layout.main_device if replica is None else self._layout.replica_device(replica)

    def _row_along(self, tensor: str, layout: Layout) -> list[int]:
        """How long a row is along dims of rows that may be missing; -1 for each other dim."""
        shape = self._plan.shapes.shape(tensor) or ()
        dims = {layout.dim} if isinstance(layout, Cut) else set[int]()
        if self._in_groups and not isinstance(layout, Cut | Partial):
            dims = set(range(len(shape)))
        return [size.times if isinstance(size, Multiple) and d in dims else -1 for d, size in enumerate(shape)]

    def _missing(self, owner: int | None) -> str:
        """1 for a replica, or a group, without rows, 0 for all others."""
        if ("", owner) not in self._made:
            name = "autodist/missing" if owner is None else f"autodist/missing_{owner}"
            rows = self._rows.entries([Multiple(1)], None, "int32") if owner is None else self._rows.own(owner)
            zero, one = (self._out.constant(f"{name}/{n}", n, "int32") for n in (0, 1))
            less = self._out.add("Sub", f"{name}/less", [one, rows], T="int32")
            self._made["", owner] = self._out.add("Maximum", name, [less, zero], T="int32")
        return self._made["", owner]
