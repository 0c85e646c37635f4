"""Rows of a table of which each replica has a part: numbers of rows that are in other parts are left out."""

from __future__ import annotations

from typing import Any

from autodist.graph import data_inputs, tensor_dtype
from autodist.graph.layouts import Partial, Way, bounds_of_part
from autodist.kernels.replicate._shared_step import AddsToStep, SharedStep

_NONE = -1
"""A number that names no row, where rows are put together."""


class MaskedRows(AddsToStep):
    """Adds the nodes that make numbers of rows those of a replica's part.

    As on one device, a row number that is in no part is an error.

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
        is_lookup, tensors = way.outputs == (Partial(),), data_inputs(node)
        (rows, *_) = self._plan.shapes.shape(tensors[0] if is_lookup else node.name) or ()
        assert isinstance(rows, int)
        dtype, name = tensor_dtype(self._nodes, tensors[way.masks]), f"replica_{replica}/{node.name}/masked"
        device = self._layout.replica_device(replica)
        begin, end = bounds_of_part(rows, self._plan.tiled.parts, self._layout.first_replica + replica)
        kinds = {"T": dtype, "device": device}
        known = self._known(name, given, rows, dtype, device, may_lack=not is_lookup)
        first = self._out.constant(f"{name}/first", begin, dtype)
        local = self._out.add("Sub", f"{name}/local", [known, first], **kinds)
        ends = (("zero", 0), ("end", end - begin))
        zero, past = (self._out.constant(f"{name}/{what}", at, dtype) for what, at in ends)
        above = self._out.add("GreaterEqual", f"{name}/above", [local, zero], **kinds)
        below = self._out.add("Less", f"{name}/below", [local, past], **kinds)
        own = self._out.add("LogicalAnd", f"{name}/own", [above, below], device=device)
        self._own[f"replica_{replica}/{node.name}"] = own
        instead = zero if is_lookup else self._out.constant(f"{name}/none", _NONE, dtype)
        return self._out.add("SelectV2", name, [own, local, instead], **kinds)

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
