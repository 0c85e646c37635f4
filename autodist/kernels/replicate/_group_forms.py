"""Brings tensors from the form in which groups of replicas have them to the one in which they need them.

They have parts of a sum, or their rows of the batch along some dim; they need all, or their rows of what all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodist.graph import GraphEditor, node_of, tensor_dtype, tensor_label
from autodist.graph.layouts import BatchPlan, Cut, Dim, Entry, Multiple, NoPlanError, Partial, Rows
from autodist.kernels._base import Combine
from autodist.kernels.replicate._group_numbers import GroupNumbers, Number
from autodist.kernels.replicate._row_reductions import as_row, of_rows

PARTS = "groups of replicas have parts of the batch"
"""How a refusal begins."""


class GroupForms:
    """Adds the nodes that bring tensors from one form to another.

    Args:
        nodes: The flat step, by name.
        plan: How groups share its tensors.
        editor: Where to add nodes.
        numbers: The numbers of a group.

    Attributes:
        joined: By node at which groups meet, how their values become one.
    """

    def __init__(self, nodes: dict[str, Any], plan: BatchPlan, editor: GraphEditor, numbers: GroupNumbers) -> None:
        self._nodes = nodes
        self._plan = plan
        self._editor = editor
        self._numbers = numbers
        self._cuts: dict[str, list[Cut]] = {}
        self.joined: dict[str, Combine] = {}

    # All of it, from what groups have --------------------------------------------------------------------------------

    def put_together(self, tensor: str, partial: Partial, own: str) -> str:
        """The whole, from the groups' parts of a sum, or of what else a reduction gives."""
        label, dtype = tensor_label(tensor), tensor_dtype(self._nodes, tensor)
        if partial == Partial():
            shape = self._plan.shapes.shape(tensor)
            static = None if shape is None else [size if isinstance(size, int) else None for size in shape]
            return self._meeting(f"autodist/met/{label}", own, dtype, Combine.SUM, static)
        row = as_row(self._editor, f"autodist/rows_of_groups/{label}/own", own, dtype)
        rows = self._meeting(f"autodist/rows_of_groups/{label}", row, dtype, Combine.CONCAT, None)
        return of_rows(self._editor, rows, partial.reducer, dtype)

    def gathered(self, tensor: str, cut: Cut, own: str) -> str:
        """The whole, from the groups' rows of it."""
        shape, name, dtype = self._shape(tensor), f"autodist/met/{tensor_label(tensor)}", self._dtype(tensor)
        front, back = _orders(len(shape), cut)
        if cut.outer > 1:
            own = self._reshaped(f"{name}/own", own, _apart(shape, cut, Rows(cut.inner)), dtype)
        own = self._editor.transpose(f"{name}/front", own, front, dtype)
        split = _apart(shape, cut, None) if cut.outer > 1 else [*shape]
        static = [None, *(split[d] if isinstance(split[d], int) else None for d in front[1:])]
        whole = self._meeting(name, own, dtype, Combine.CONCAT, static)
        whole = self._editor.transpose(f"{name}/back", whole, back, dtype)
        return self._reshaped(f"{name}/whole", whole, shape, dtype) if cut.outer > 1 else whole

    def _meeting(self, name: str, own: str, dtype: str, how: Combine, static: Sequence[int | None] | None) -> str:
        self.joined[name] = how
        return self._editor.add("Identity", name, [own], T=dtype, _output_shapes=[static])

    # What a group has, from all of it --------------------------------------------------------------------------------

    def rows_of(self, tensor: str, cut: Cut, whole: str) -> str:
        """A group's rows of a tensor that all have."""
        cuts = self._cuts.setdefault(tensor, [])
        cuts.append(cut)  # sizes are no part of names
        name, dtype, dim = f"autodist/rows/{tensor_label(tensor)}/{len(cuts)}", self._dtype(tensor), cut.dim
        if cut.outer > 1:
            shape = self._shape(tensor)
            whole = self._reshaped(f"{name}/apart", whole, _apart(shape, cut, Multiple(cut.inner)), dtype)
            own = [Rows(cut.outer * cut.inner) if d == dim else size for d, size in enumerate(shape)]
            part = self._sliced(f"{name}/part", whole, dim + 1, cut.inner, _apart(shape, cut, None), dtype)
            return self._reshaped(name, part, own, dtype)
        return self._sliced(name, whole, dim, cut.inner, self._plan.shapes.shape(tensor) or (), dtype)

    def _sliced(self, name: str, whole: str, dim: int, inner: int, shape: Sequence[Dim], dtype: str) -> str:
        """A group's places of a dim of which each row of the batch has this many."""
        at = [inner if d == dim else 0 for d in range(len(shape))]
        start = self._numbers.number("begin", "int32")
        begin = self._editor.constant(f"{name}/at", at, "int32")
        begin = self._editor.add("Mul", f"{name}/begin", [begin, start], T="int32")
        sizes: list[Entry] = [
            Rows(inner) if d == dim else size if isinstance(size, int) else -1 for d, size in enumerate(shape)
        ]
        kinds: dict[str, Any] = {"T": dtype, "Index": "int32"}
        return self._editor.add("Slice", name, [whole, begin, self._numbers.lengths(sizes, "int32")], **kinds)

    def weighted(self, name: str, tensor: str, number: Number, dtype: str) -> str:
        """A tensor times a number that the group knows; where that is 0 the product is 0, even if values are NaN."""
        op = "Mul" if dtype.startswith(("int", "uint")) else "MulNoNan"
        return self._editor.add(op, name, [tensor, self._numbers.number(number, dtype)], T=dtype)

    # Shapes ----------------------------------------------------------------------------------------------------------

    def _shape(self, tensor: str) -> list[Any]:
        """The shape of a tensor of the whole batch.

        Raises:
            NoPlanError: A length is not known, and groups may have other ones.
        """
        shape = self._plan.shapes.shape(tensor)
        if shape is None or None in shape:
            raise NoPlanError(f"{PARTS}, which can't be put together in `{tensor}`", node_of(tensor))
        return [*shape]

    def _dtype(self, tensor: str) -> str:
        return tensor_dtype(self._nodes, tensor)

    def _reshaped(self, name: str, tensor: str, shape: Sequence[Entry], dtype: str) -> str:
        lengths = self._numbers.lengths(shape, "int32")
        return self._editor.add("Reshape", name, [tensor, lengths], T=dtype, Tshape="int32")


def _apart(shape: Sequence[Any], cut: Cut, rows: Any) -> list[Any]:
    """A shape in which the repetitions of the batch are a dim of their own, before that of the rows."""
    return [*shape[: cut.dim], cut.outer, rows, *shape[cut.dim + 1 :]]


def _orders(rank: int, cut: Cut) -> tuple[list[int], list[int]]:
    """The order of dims in which that of the rows is the first, and the one that brings them back."""
    is_apart = int(cut.outer > 1)
    dim = cut.dim + is_apart
    front = [dim, *(d for d in range(rank + is_apart) if d != dim)]
    return front, [front.index(d) for d in range(len(front))]
