"""Numbers of a group of replicas in its step: lengths of its rows, sizes of the whole batch, its share of that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from autodist.graph import GraphEditor
from autodist.graph.layouts import Dim, Entry, Multiple, Rows

Number: TypeAlias = Literal["share", "active", "first", "begin"]
"""A number that a group knows: its share of the batch, 1 if it has rows, 1 if it is the first group with rows, and
where its rows begin."""


class GroupNumbers:
    """Adds the nodes that give these numbers.

    Args:
        editor: Where to add nodes.
        batch: The name and the element type of a placeholder whose dim 0 is the batch.

    Attributes:
        sizes: By node whose value is a size of tensors of the whole batch, its entries.
        known: By node whose value is a number that a group knows, which.
    """

    def __init__(self, editor: GraphEditor, batch: tuple[str, str]) -> None:
        self._editor = editor
        self._batch = batch
        self.sizes: dict[str, tuple[Dim, ...]] = {}
        self.known: dict[str, Number] = {}
        self._made: dict[tuple[object, ...], str] = {}
        self._count = itertools.count()

    def number(self, number: Number, dtype: str) -> str:
        """A number that a group knows; 1 as long as there is one group."""
        key = (number, dtype)
        if key not in self._made:
            name = f"autodist/group/{number}/{dtype}"
            one = self._editor.constant(f"{name}/one", 1, dtype)
            self.known[name] = number
            self._made[key] = self._editor.add("Identity", name, [one], T=dtype, _output_shapes=[()])
        return self._made[key]

    def size(self, name: str, entries: Sequence[Dim], dtype: str, *, is_scalar: bool) -> str:
        """A size of a tensor of the whole batch."""
        known = [entry for entry in entries if entry is not None]
        if not any(isinstance(entry, Multiple) for entry in known):
            return self._editor.constant(name, known[0] if is_scalar else known, dtype)
        own = self.lengths([Rows(e.times) if isinstance(e, Multiple) else e for e in known], dtype, is_scalar=is_scalar)
        self.sizes[name] = tuple(known)
        shape = () if is_scalar else (len(known),)
        return self._editor.add("Identity", name, [own], T=dtype, _output_shapes=[shape])

    def lengths(self, entries: Sequence[Entry], dtype: str, *, is_scalar: bool = False) -> str:
        """The lengths of a group's tensor, a vector or one number, of its own rows or of all."""
        if is_scalar:
            return self._scalar(entries[0], dtype)
        key = ("vector", tuple(entries), dtype)
        if key not in self._made:
            name, scalars = f"autodist/in_group/lengths_{next(self._count)}", [self._scalar(e, dtype) for e in entries]
            self._made[key] = self._editor.add("Pack", name, scalars, N=len(scalars), T=dtype, axis=0)
        return self._made[key]

    def _scalar(self, entry: Entry, dtype: str) -> str:
        key = ("scalar", entry, dtype)
        if key not in self._made:
            name = f"autodist/in_group/length_{next(self._count)}"
            if isinstance(entry, Rows):
                self._made[key] = self._times_rows(name, entry.times, dtype)
            else:
                assert isinstance(entry, int | Multiple), entry
                self._made[key] = self.size(name, [entry], dtype, is_scalar=True)
        return self._made[key]

    def _times_rows(self, name: str, times: int, dtype: str) -> str:
        if times > 1:
            factor = self._editor.constant(f"{name}/times", times, dtype)
            return self._editor.add("Mul", name, [self._scalar(Rows(1), dtype), factor], T=dtype)
        batch, kind = self._batch
        shape = self._editor.add("Shape", f"{name}/shape", [batch], T=kind, out_type=dtype)
        places = {"begin": [0], "end": [1], "strides": [1]}
        ends = [self._editor.constant(f"{name}/{what}", place, "int32") for what, place in places.items()]
        kinds: dict[str, Any] = {"T": dtype, "Index": "int32", "shrink_axis_mask": 1}
        return self._editor.add("StridedSlice", name, [shape, *ends], **kinds)
