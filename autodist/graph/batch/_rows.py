"""Facts about the batch in a tensor, and the arguments of an operator's rule."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

BY_REPLICA = "_autodist_by_replica"
"""NodeDef attribute of nodes that compute values of all examples of a replica, which it is meant to keep to itself."""

SYNCHRONIZED = "_autodist_synchronized"
"""NodeDef attribute of nodes that compute statistics which have to be those of the whole batch."""

APART = "_autodist_apart"
"""NodeDef attribute of the nodes of a function that is known to keep examples apart."""

BY = "_autodist_by"
"""NodeDef attribute of an IdentityN of a gradient and its source tensor: `graph/annotations/_by_tensors.py`."""

RETURNED = "_autodist_returned"
"""NodeDef attribute of the gradients of all iterations of a vectorized loop; later nodes treat them as data. Its value
is the number of the differentiation, or -1."""

SCALING_OF = "_autodist_extent_of"
"""NodeDef attribute that names a tensor whose batch a node's output has, where its op does not show it."""

EVERYWHERE = -1
"""As a column of numbers of rows: all columns."""

Shape: TypeAlias = tuple[int | None, ...] | None


@dataclass(frozen=True)
class Batch:
    """A size that is a multiple of the number of examples; computing with it gives None where it is not known to be."""

    times: Fraction

    def __add__(self, other: object) -> Batch | None:
        return Batch(self.times + other.times) if isinstance(other, Batch) else None

    def __sub__(self, other: object) -> Batch | None:
        return Batch(self.times - other.times) if isinstance(other, Batch) else None

    def __mul__(self, other: object) -> Batch | None:
        return Batch(self.times * other) if isinstance(other, int) else None

    def __floordiv__(self, other: object) -> Batch | None:
        is_exact = isinstance(other, int) and (self.times / other).denominator == 1
        return Batch(self.times / other) if is_exact and isinstance(other, int) else None

    def __radd__(self, other: object) -> None:
        return None

    def __rsub__(self, other: object) -> None:
        return None

    def __rmul__(self, other: object) -> Batch | None:
        return self * other

    def __rfloordiv__(self, other: object) -> None:
        return None


Size: TypeAlias = int | Batch | None
"""An entry of a shape; None where nothing is known of it."""


@dataclass(frozen=True)
class Rows:
    """A tensor each of whose elements belongs to one example and is computed from that example alone.

    Along one dim, element ``(o * B + b) * inner + i`` belongs to example b of B; o counts up to `outer`, i to `inner`.

    Attributes:
        dim: Which dim that is; -1 for a list that has an example's tensor at each place.
        outer: How often the batch repeats; None where that is not known or does not matter.
        inner: How many elements of an example lie side by side; None as above.
        selection: Name of what has selected the examples (``tf.boolean_mask``); empty for all examples, None where it
            is not known. Rows of two selections are not of the same examples.
        position: Where the values are numbers of rows: the column of the last dim that has them, or :data:`EVERYWHERE`.
        stride: Such numbers are the example's, times `stride`, plus less than that.
        among: The selection whose rows they number.
        counted: Where `selection` is not known, one that leaves as many rows.
    """

    dim: int
    outer: int | None = 1
    inner: int | None = 1
    selection: str | None = ""
    position: int | None = None
    stride: int = 1
    among: str | None = ""
    counted: str | None = None

    @property
    def selected(self) -> bool:
        """Whether data decide which examples there are."""
        return bool(self.selection)

    @property
    def can_move(self) -> bool:
        """Whether no column alone, which moving the elements would lose, has numbers of examples."""
        return self.position in (None, EVERYWHERE)

    def lies_as(self, other: Rows) -> bool:
        """Whether both have the batch at the same places, as far as that is known."""
        pairs = (self.outer, other.outer), (self.inner, other.inner)
        return self.dim == other.dim and all(None in pair or pair[0] == pair[1] for pair in pairs)

    def are_numbers(self, *columns: int, among: str | None = "") -> bool:
        """Whether the values of one of these columns are numbers of examples, of those that a selection leaves."""
        return self.position in columns and self.stride == 1 and self.among == among


def one_selection(*rows: Rows) -> str | None:
    """The selection of tensors that are of the same examples; raises :class:`ValueError` for any others."""
    (found,) = {r.selection for r in rows} - {None} or {None}
    return found


def of_same_examples(*rows: Rows) -> bool:
    """Whether tensors are of the same examples, as far as their selections are known."""
    return len({r.counted if r.selection is None else r.selection for r in rows} - {None}) < 2


def are_alike(rows: Sequence[Rows]) -> bool:
    """Whether elements at one place belong to one example."""
    return all(one.lies_as(rows[0]) for one in rows) and of_same_examples(*rows)


class Kind(enum.Enum):
    """Tensors without a dim for the batch, and those in which examples have met."""

    SIZE = "size"
    """A number of examples, a shape with it, or what is computed from these."""
    DATA = "data"
    """A value of all examples together: a sum, a mean, a maximum."""
    ROW = "row"
    """A value of one example, in a loop over examples."""
    MET = "met"
    """Elements that depend on several examples: a replica's values differ from those of one device."""


Value: TypeAlias = Rows | Kind | None
"""The facts about a tensor; None: it does not depend on the batch."""


@dataclass(frozen=True)
class Call:
    """An operator at work.

    Attributes:
        node: The node.
        values: The facts about each input.
        shapes: The static shape of each input.
        results: The static shape of each output.
        sizes: By position of an input, the entries of this vector of whole numbers, as far as they are known.
        is_of_batch: By position of an input, whether it follows from how many examples there are alone.
        selection_counted: By position of an input, the selection whose rows it counts, if it says no more than that.
        computed_as: By position of an input, a name that two inputs have only if they are computed alike.
    """

    node: Any
    values: Sequence[Value]
    shapes: Sequence[Shape]
    results: Sequence[Shape]
    sizes: Callable[[int], tuple[Size, ...] | None]
    is_of_batch: Callable[[int], bool]
    selection_counted: Callable[[int], str | None]
    computed_as: Callable[[int], str]

    @property
    def result(self) -> Shape:
        """The static shape of the first output."""
        return self.results[0] if self.results else None

    def rows(self, position: int = 0) -> Rows | None:
        """The facts about an input, if it has a dim for the batch."""
        value = self.values[position]
        return value if isinstance(value, Rows) else None

    def rank(self, position: int = 0) -> int | None:
        """Number of dims of an input."""
        shape = self.shapes[position]
        return None if shape is None else len(shape)

    def numbers(self, position: int) -> tuple[int, ...] | None:
        """The entries of an input that is constant."""
        found = self.sizes(position)
        if found is None or not all(isinstance(size, int) for size in found):
            return None
        return tuple(size for size in found if isinstance(size, int))


Rule: TypeAlias = Callable[[Call], "Value | list[Value]"]
"""An operator's treatment of the batch: of every output, or of all of them alike."""
