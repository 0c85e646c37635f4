"""Rows of a table of which each replica has a part: numbers of rows that are in other parts are left out."""

from __future__ import annotations

from typing import Any

from autodist.graph import data_inputs, tensor_dtype
from autodist.graph.layouts import Partial, Tile, Way, bounds_of_part
from autodist.graph.operators import Kind, is_kind
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep

_NONE = -1
"""A number that names no row, where rows are put together or made."""


class MaskedRows(AddsToStep):
    """Adds the nodes that make numbers of rows those of a replica's part.

    As on one device, a row number that is in no part is an error, but for a ``OneHot``, whose row has no one then.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        super().__init__(step)
        self._own: dict[str, str] = {}

    def numbers(self, node: Any, way: Way, given: str, replica: int) -> str:
        """The numbers, counted from the part's first row; of others, what does no harm.

        Args:
            node: The node that takes them.
            way: How it is cut.
            given: The numbers of rows of the whole.
            replica: Which local replica.
        """
        assert way.masks is not None
        rows, tensor = self._all_rows(node, way), data_inputs(node)[way.masks]
        dtype, name = tensor_dtype(self._nodes, tensor), f"replica_{replica}/{node.name}/masked"
        device, is_lookup = self._layout.replica_device(replica), way.outputs == (Partial(),)
        bounds = bounds_of_part(rows, self._plan.tiled.parts, self._layout.first_replica + replica)
        if is_kind(node.op, Kind.LOOKUP, Kind.SCATTER):
            given = self._known(name, given, rows, dtype, device, may_lack=not is_lookup)
        local, own = self._counted(name, given, dtype, bounds, device)
        self._own[f"replica_{replica}/{node.name}"] = own
        instead = self._out.constant(f"{name}/none", 0 if is_lookup else _NONE, dtype)
        return self._out.add("SelectV2", name, [own, local, instead], T=dtype, device=device)

    def _all_rows(self, node: Any, way: Way) -> int:
        """How many rows all parts have together: of a table, or of what is put together or made."""
        (made,) = way.outputs
        tensor, dim = (node.name, made.dim) if isinstance(made, Tile) else (data_inputs(node)[0], 0)
        rows = (self._plan.shapes.shape(tensor) or ())[dim]
        assert isinstance(rows, int)
        return rows

    def _counted(self, name: str, given: str, dtype: str, bounds: tuple[int, int], device: str) -> tuple[str, str]:
        """The numbers as they are counted in a part of the rows, and which of them are in it."""
        begin, end = bounds
        kinds = {"T": dtype, "device": device}
        first = self._out.constant(f"{name}/first", begin, dtype)
        local = self._out.add("Sub", f"{name}/local", [given, first], **kinds)
        ends = (("zero", 0), ("end", end - begin))
        zero, past = (self._out.constant(f"{name}/{what}", at, dtype) for what, at in ends)
        above = self._out.add("GreaterEqual", f"{name}/above", [local, zero], **kinds)
        below = self._out.add("Less", f"{name}/below", [local, past], **kinds)
        return local, self._out.add("LogicalAnd", f"{name}/own", [above, below], device=device)

    def _known(self, name: str, given: str, rows: int, dtype: str, device: str, *, may_lack: bool) -> str:
        """The numbers, after TensorFlow has checked that such rows exist; below 0 they may mean none."""
        bounds = [self._out.constant(f"{name}/{what}", at, dtype) for what, at in (("b", 0), ("e", rows), ("s", 1))]
        every = self._out.add("Range", f"{name}/rows", bounds, Tidx=dtype, device=device)
        asked = given
        if may_lack:
            asked = self._out.add("Maximum", f"{name}/asked", [given, bounds[0]], T=dtype, device=device)
        axis = self._out.constant(f"{name}/axis", 0, "int32")
        kinds: dict[str, Any] = {"Tparams": dtype, "Tindices": dtype, "Taxis": "int32", "batch_dims": 0}
        found = self._out.add("GatherV2", f"{name}/known", [every, asked, axis], device=device, **kinds)
        if not may_lack:
            return found
        is_one = self._out.add("GreaterEqual", f"{name}/is_one", [given, bounds[0]], T=dtype, device=device)
        return self._out.add("SelectV2", f"{name}/seen", [is_one, found, given], T=dtype, device=device)

    def looked_up(self, node: Any, looked_up: str, replica: int) -> str:
        """A replica's rows of those that are asked for: zeros for those of other parts.

        Args:
            node: The lookup.
            looked_up: The rows that its copy finds.
            replica: Which local replica.
        """
        table, dtype = data_inputs(node)[0], tensor_dtype(self._nodes, node.name)
        name, own = f"{looked_up}/of_part", self._own[f"replica_{replica}/{node.name}"]
        device = self._layout.replica_device(replica)
        for dim in range(1, len(self._plan.shapes.shape(table) or ())):
            last = self._out.constant(f"{name}/last_{dim}", -1, "int32")
            own = self._out.add("ExpandDims", f"{name}/own_{dim}", [own, last], T="bool", Tdim="int32", device=device)
        zero = self._out.constant(f"{name}/zero", 0, dtype)
        return self._out.add("SelectV2", name, [own, looked_up, zero], T=dtype, device=device)
