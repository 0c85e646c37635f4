"""A way in which replicas can share the work of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.graph._graph_def import data_inputs
from autodist.graph.layouts._base import WHOLE, Cut, Layout, Multiple, Part, Partial, Rows, Tile, Whole
from autodist.graph.layouts._part_changes import PartChange

Entry: TypeAlias = "int | Multiple | Rows | Part"


@dataclass(frozen=True)
class Way:
    """How replicas share the work of a node.

    Attributes:
        inputs: How each input must be shared.
        outputs: How each output is shared then.
        local: Inputs that hold lengths or places along the batch, each with a replica's entries.
        passes: Whether the first input is passed on, whatever the others are.
        draws: Whether it draws random numbers by a counter, so that a replica can draw those of its own rows.
        open_shape: Whether a shape among the node's attributes is wrong for a replica.
        takes_own: Whether each replica takes only its own input: the inputs are the parts of a tiled variable.
        changes: By part, the differences from the whole node besides the sizes of tensors; empty if there are none.
        masks: The input with numbers of rows: a replica leaves out the rows that are not in its part.
    """

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    local: tuple[tuple[int, tuple[Entry, ...]], ...] = ()
    passes: bool = False
    draws: bool = False
    open_shape: bool = False
    takes_own: bool = False
    changes: tuple[PartChange, ...] = ()
    masks: int | None = None

    @property
    def lengths(self) -> dict[int, tuple[Entry, ...]]:
        """By input, its entries as a replica has them."""
        return dict(self.local)

    @property
    def is_whole(self) -> bool:
        """Whether each worker does all of it."""
        return all(isinstance(layout, Whole) for layout in (*self.inputs, *self.outputs))


def is_part_of_mean(node: Any, way: Way) -> bool:
    """Whether replicas take a mean of their own elements each, which together give that of all by their shares."""
    takes_parts = bool(way.inputs) and isinstance(way.inputs[0], Cut | Tile)
    return node.op == "Mean" and takes_parts and isinstance(way.outputs[0], Partial)


def whole_way(node: Any, outputs: int) -> Way:
    """Every worker does all of it."""
    return Way((WHOLE,) * len(data_inputs(node)), (WHOLE,) * outputs)


def local_entry(entry: Any, is_cut: bool) -> Entry:
    """A length as a replica has it."""
    return Rows(entry.times) if is_cut and isinstance(entry, Multiple) else entry


def part_entry(entry: Any, is_cut: bool) -> Entry:
    """A length of a tiled tensor as a replica has it; one that is left to TensorFlow stays so."""
    return Part(entry) if is_cut and isinstance(entry, int) and entry > 0 else entry


def entries_at(entries: Sequence[Any], dim: int) -> tuple[Entry, ...]:
    """Entries of which one is a place, or a length, along the batch."""
    return tuple(local_entry(entry, d == dim) for d, entry in enumerate(entries))
