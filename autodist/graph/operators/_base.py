"""Facts about an operator: its index expression, and whether it passes on, moves or adds values."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from autodist.graph.operators._kinds import (
    Asks,
    Flow,
    Handle,
    Kind,
    Linearity,
    ListUse,
    Passes,
    RangeUse,
    Reducer,
    Unchanged,
)
from autodist.graph.operators._made_of import MadeOf
from autodist.graph.operators._whole_numbers import NumberInputs, Numbers

Size: TypeAlias = int | None
"""Length of a dim; None where tracing has left it open."""

Shape: TypeAlias = tuple[Size, ...] | None


@dataclass(frozen=True)
class Lookup:
    """How an operator takes rows of a table, which is its first input.

    Attributes:
        rows: The input that says which rows.
        by_handle: Whether the table is a variable's handle, not its value.
        by_coordinates: Whether each row is named by coordinates in several dims.
    """

    rows: int = 1
    by_handle: bool = False
    by_coordinates: bool = False


@dataclass(frozen=True)
class Affine:
    """A place along a dim: a sum of indices, each times a whole number, and a constant.

    Example:
        >>> str(Affine.of("h", 2) + Affine.of("i") - 1)
        '2*h+i-1'

    Attributes:
        terms: Indices by name, each with its factor.
        offset: The constant.
        around: Whether places beyond an end of the dim are those at its other end.
    """

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0
    around: bool = False

    @classmethod
    def of(cls, index: str, factor: int = 1) -> Affine:
        """An index, times a factor."""
        return cls(((index, factor),))

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.offset + other, self.around)
        return Affine(self.terms + other.terms, self.offset + other.offset, self.around or other.around)

    def __sub__(self, other: int) -> Affine:
        return self + -other

    def factor(self, index: str) -> int:
        """The factor of an index; 0 if it does not occur."""
        return sum(factor for name, factor in self.terms if name == index)

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices that occur."""
        return tuple(name for name, _ in self.terms)

    @property
    def only(self) -> str | None:
        """The index, if the place is one and nothing else."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and not self.offset else None

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{factor}*{name}" for name, factor in self.terms]
        text = "+".join(parts) or ("" if self.offset else "0")
        return f"{text}{self.offset:+d}" if self.offset and text else text or str(self.offset)


@dataclass(frozen=True)
class Access:
    """Which elements of a tensor are meant: a place along each dim, or None for all of the dim."""

    dims: tuple[Affine | None, ...]

    @classmethod
    def by(cls, *indices: str | None) -> Access:
        """One index per dim.

        Example:
            >>> str(Access.by("b", None, "c"))
            '[b, :, c]'
        """
        return cls(tuple(None if name is None else Affine.of(name) for name in indices))

    def dims_of(self, index: str) -> tuple[int, ...]:
        """The dims whose place depends on an index."""
        return tuple(d for d, place in enumerate(self.dims) if place is not None and place.factor(index))

    def __str__(self) -> str:
        return f"[{', '.join(':' if place is None else str(place) for place in self.dims)}]"


class _Whole(enum.Enum):
    WHOLE = "whole"

    def __repr__(self) -> str:
        return "WHOLE"


WHOLE = _Whole.WHOLE
"""An input that every tile takes as it is."""


@dataclass(frozen=True)
class Lengths:
    """An input whose whole numbers say how large a tile is: its entries are the lengths of these places.

    Attributes:
        dims: The place that an entry is the length of.
        is_scalar: Whether the input is one number, not a vector.
    """

    dims: tuple[Affine, ...]
    is_scalar: bool = False


Operand: TypeAlias = "Access | Lengths | _Whole"


@dataclass(frozen=True)
class Expression:
    """An operator's computation, in indices.

    The operator runs over all values of its indices. For each it takes one element of every input, and one place of
    every output is given a value, or a value more to sum up (Tofu, section 4: partition-n-reduce).

    Attributes:
        sizes: By index, how many values it has; None where the graph leaves it open.
        outputs: Where the results go; None for an output of any shape that a kernel keeps for its own gradient.
        inputs: The elements that are taken.
        reduced: The indices that no output has, and how the values along them are put together.
        joined: Indices along which elements meet in a way that can't be cut: those of a softmax, of a filter.
        masked: The joined indices of rows that the numbers in an input name, each with the position of that input: a
            part that has some of the rows can do its share, if it leaves out the numbers of all others.
    """

    sizes: Mapping[str, Size]
    outputs: tuple[Access | None, ...]
    inputs: tuple[Operand, ...]
    reduced: Mapping[str, Reducer] = field(default_factory=lambda: MappingProxyType({}))
    joined: frozenset[str] = frozenset()
    masked: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        taken = ", ".join(str(operand) if isinstance(operand, Access) else ":" for operand in self.inputs)
        reduced = "".join(f" {reducer.value}({name})" for name, reducer in self.reduced.items())
        return f"{', '.join(map(str, self.outputs))} ={reduced} f({taken})"


@dataclass(frozen=True)
class Signature:
    """A node as its description sees it.

    Attributes:
        op: The type of the operator.
        inputs: The static shape of each input.
        outputs: The static shape of each output.
        attributes: The attributes of the NodeDef.
        constant: By position of an input, its value as a NumPy array if it is constant, else None.
    """

    op: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    attributes: Mapping[str, Any]
    constant: Callable[[int], Any] = lambda position: None

    def numbers(self, position: int) -> tuple[int, ...] | None:
        """The entries of a constant input of whole numbers."""
        value = self.constant(position)
        return None if value is None else tuple(int(entry) for entry in value.reshape(-1))

    def rank(self, position: int) -> int | None:
        """Number of dims of an input."""
        shape = self.inputs[position] if position < len(self.inputs) else None
        return None if shape is None else len(shape)

    def text(self, name: str) -> str:
        """An attribute that is a text; empty if it is not there."""
        return self.attributes[name].s.decode() if name in self.attributes else ""

    def flag(self, name: str) -> bool:
        """An attribute that is true or false; false if it is not there."""
        return bool(name in self.attributes and self.attributes[name].b)

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        return int(self.attributes[name].i) if name in self.attributes else default

    def list(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers."""
        return tuple(int(n) for n in self.attributes[name].list.i) if name in self.attributes else ()


@dataclass(frozen=True)
class Change:
    """Differences between an operator and its tile, besides the sizes of its tensors.

    Attributes:
        attributes: By name, other values: texts, whole numbers, lists of these; None leaves the sizes of a shape open.
        constants: By position, the values of other constant inputs.
        padded: By position of an input, by dim, how many zeros are put before and behind it.
        cropped: By dim, how many places are cut off before and behind the first result, of which the tile makes more.
            The lengths that it is given are longer by them.
    """

    attributes: Mapping[str, str | int | tuple[int, ...] | None] = field(default_factory=lambda: MappingProxyType({}))
    constants: Mapping[int, Any] = field(default_factory=lambda: MappingProxyType({}))
    padded: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=lambda: MappingProxyType({}))
    cropped: tuple[tuple[int, int], ...] = ()


class Elements(Protocol):
    """Sizes of tensors, open dims being estimated; see `cost`."""

    def of(self, tensor: str) -> int:
        """Number of elements."""

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Length of each dim; () where nothing is known."""


Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""By index, its first value and the one after its last."""

Describe: TypeAlias = Callable[[Signature], "Expression | None"]
Adapt: TypeAlias = Callable[[Signature, Expression, Ranges], Change]


@dataclass(frozen=True)
class Operator:
    """An operator's meaning, said once: all code that needs it asks here.

    Attributes:
        name: The op type of TensorFlow.
        kind: The sort of its work.
        describe: Gives its index expression at a node, or None for shapes or attributes without one. Without an index
            expression, the operator runs whole.
        adapt: Gives the other changes of a tile, from the node, its expression and the range of every index. The tile
            is given what it needs of its inputs along the dims that depend on the index that is cut, and all of their
            other dims.
        passes: How its result is still its first input; see :class:`Passes`.
        linearity: The inputs in which it is linear.
        flops: Floating-point operations, from the node, its inputs and their sizes; by default one per element of its
            result.
        reducer: How it combines elements along the dims that its result lacks.
        lookup: How it takes rows of a table.
        handle: What it does with the variable whose handle it takes.
        unchanged: What it is given last in order to change nothing of the variable.
        can_fail: Whether it fails for some elements of its inputs: whole numbers divided by zero, a check.
        table: What it does with the lookup table whose handle it takes.
        asks: What it tells about its input's shape.
        flow: How it calls functions.
        list_use: What it does with a list of tensors.
        range_use: How it takes ranges along a dim, or puts them one after the other.
        examples: The inputs with a row for each example, if its result has such rows too but no index expression.
        is_flat: Whether no gradient flows through it, although it gives floats.
        is_free: Whether it costs no time: nothing is computed or copied.
        is_acting: Whether it is run for an effect outside the graph.
        calls_python: Whether it calls a function of the program.
        makes_keys: Whether it makes the key of a random generator of a seed or a state.
        gives_statistics: Whether it normalizes, and gives the statistics of the examples as well.
        picks: Whether it takes elements by their places in a tensor, which are there or not.
        source: The input from which it picks or moves elements.
        chooses: Whether its first input says for each element from which of the others it comes.
        has_one_shape: Whether it works element by element on inputs of one shape, without broadcasting.
        ignores_values: Whether its result has the elements' number and type, but does not depend on what they are.
        creates: Whether it makes as many elements as an input says, each a copy of another or drawn.
        is_aligned: Whether each element of its result comes from those of its inputs at its place, although no index
            expression says so.
        numbers: Computes an output from short vectors of whole numbers, given these and the number of the output.
        adds: Whether its result is the sum of its inputs.
        updates_places: Whether its result is its first input, changed at the places that its second input names.
        finds_distinct: Whether it gives its input's distinct elements, and the position of each element among them.
        made_of: Makes its results by other operators, which can be cut along indices that it joins.
        needs_rows: Whether it fails, or gives a result of another shape, where there is no example.
        draws_once: Whether it draws once for all examples, even where it gives a row for each.
        draws_in_order: Whether it draws the elements of its result in order, a fixed number for each value of a counter
            (as TensorFlow does on a CPU).
        needs_compiler: Says of a node whether TensorFlow computes it on a CPU only if XLA compiles it.
    """

    name: str
    kind: Kind
    describe: Describe | None = None
    adapt: Adapt | None = None
    passes: Passes | None = None
    linearity: Linearity | None = None
    flops: Callable[[Any, list[str], Elements], float] | None = None
    reducer: Reducer | None = None
    lookup: Lookup | None = None
    handle: Handle | None = None
    unchanged: Unchanged | None = None
    can_fail: bool = False
    table: Handle | None = None
    asks: Asks | None = None
    flow: Flow | None = None
    list_use: ListUse | None = None
    range_use: RangeUse | None = None
    examples: tuple[int, ...] | None = None
    is_flat: bool = False
    is_free: bool = False
    is_acting: bool = False
    calls_python: bool = False
    makes_keys: bool = False
    gives_statistics: bool = False
    picks: bool = False
    source: int = 0
    chooses: bool = False
    has_one_shape: bool = False
    ignores_values: bool = False
    creates: bool = False
    is_aligned: bool = False
    numbers: Callable[[NumberInputs, int], Numbers] | None = None
    adds: bool = False
    updates_places: bool = False
    finds_distinct: bool = False
    made_of: MadeOf | None = None
    needs_rows: bool = False
    draws_once: bool = False
    draws_in_order: bool = False
    needs_compiler: Callable[[Signature], bool] | None = None
