"""The coarse graph that a tiling is searched for: tensors, and operators by the ways in which they can be cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autodist.cost.resharding import PARTIAL, WHOLE
from autodist.graph.operators import Access, Cut, Expression, Linearity, cuts, tiles

_LONGEST = 1.25
"""The largest ratio of the longest part to the mean: all other devices wait for the longest part."""


@dataclass(frozen=True)
class CoarseTensor:
    """A tensor, or several of one shape that lie alike.

    Attributes:
        name: Unique in its graph.
        shape: Its lengths.
        item_bytes: Bytes of an element.
        stored: How many of its tensors a device keeps all the time: variables and slots.
        batch_dim: The dim along which its rows are the batch's; None without one.
        may_be_partial: Whether it may be kept as the sum of what devices hold.
    """

    name: str
    shape: tuple[int, ...]
    item_bytes: int = 4
    stored: int = 0
    batch_dim: int | None = None
    may_be_partial: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of one of its tensors."""
        return prod(self.shape) * self.item_bytes


@dataclass(frozen=True)
class Form:
    """One way to run an operator on several devices: each does a part of the work along one index.

    Attributes:
        index: The index that is cut; "" where every device does all of the work.
        size: How many values it has.
        states: By operand, the dim that is cut, or `WHOLE`, or `PARTIAL`.
        halos: By operand, the places along its dim that two neighbours both need.
        is_plain: Whether each dim that is cut has just the values of the index, so that parts of one are parts of the
            other, equal or not.
    """

    index: str
    size: int
    states: tuple[int, ...]
    halos: tuple[int, ...] = ()
    is_plain: bool = False

    def can_be_cut(self, parts: int, *, unequal: bool) -> bool:
        """Whether it can be cut into this many parts; unequal ones, if these are allowed."""
        return not self.index or is_cuttable(self.size, parts, unequal=unequal and self.is_plain)


@dataclass(frozen=True)
class CoarseOperator:
    """An operator.

    Attributes:
        name: Its name, for messages.
        inputs: The tensors that it takes, by their places in the graph.
        outputs: The tensors that it makes, likewise.
        forms: The ways to cut it; without any it runs whole.
        count: How many operators it represents.
        may_repeat: Whether each device may do all of its work as well.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    forms: tuple[Form, ...]
    count: int = 1
    may_repeat: bool = False

    @property
    def operands(self) -> tuple[int, ...]:
        """Inputs and outputs."""
        return self.inputs + self.outputs

    @property
    def whole(self) -> Form:
        """The form in which each device does all of the work."""
        return Form("", 1, (WHOLE,) * len(self.operands))


@dataclass(frozen=True)
class CoarseGraph:
    """Tensors, and operators among them, in an order in which they can run.

    Attributes:
        tensors: The tensors.
        operators: The operators.
        unequal: Whether parts of a dim may differ by one element; on one axis.
    """

    tensors: tuple[CoarseTensor, ...]
    operators: tuple[CoarseOperator, ...]
    unequal: bool = False

    @cached_property
    def place(self) -> dict[str, int]:
        """By name, a tensor's place."""
        return {tensor.name: place for place, tensor in enumerate(self.tensors)}

    @cached_property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """By tensor, the dims that some operator can be cut along."""
        found: dict[int, set[int]] = defaultdict(set)
        for operator in self.operators:
            for form in operator.forms:
                for tensor, state in zip(operator.operands, form.states, strict=True):
                    if state >= 0:
                        found[tensor].add(state)
        return tuple(tuple(sorted(found[place])) for place in range(len(self.tensors)))


def is_cuttable(length: int, parts: int, *, unequal: bool) -> bool:
    """Whether a length can be cut into equal parts, or into unequal ones of which none is much longer than the mean.

    Example:
        >>> [is_cuttable(length, 4, unequal=True) for length in (8, 7, 5)]
        [True, True, False]
    """
    return length % parts == 0 or (unequal and -(-length // parts) * parts <= _LONGEST * length)


def forms_of(expression: Expression, shapes: Mapping[int, tuple[int, ...]]) -> tuple[Form, ...]:
    """The partition-n-reduce forms of an operator, discovered from its index expression (Tofu, section 4.2).

    Args:
        expression: What it computes, with sizes that are all known.
        shapes: By place among inputs and outputs, the shape of each operand that is looked at.

    Example:
        >>> from autodist.graph.operators import Reducer
        >>> product = Expression({"m": 4, "n": 6, "k": 8}, (Access.by("m", "n"),),
        ...     (Access.by("m", "k"), Access.by("k", "n")), {"k": Reducer.SUM})
        >>> [(form.index, form.states) for form in forms_of(product, {0: (4, 8), 1: (8, 6), 2: (4, 6)})]
        [('m', (0, -1, 0)), ('n', (-1, 1, 1)), ('k', (1, 0, -2))]
    """
    operands = (*expression.inputs, *expression.outputs)
    found = []
    by_rows = (Cut(index, expression.reduced.get(index)) for index in expression.masked)
    for cut in (*cuts(expression), *by_rows):
        states, halos = [], []
        for place, shape in shapes.items():
            operand = operands[place]
            dims = operand.dims_of(cut.index) if isinstance(operand, Access) else ()
            if len(dims) > 1:
                break
            is_sum = place >= len(expression.inputs) and cut.reducer is not None
            states.append(PARTIAL if is_sum else dims[0] if dims else WHOLE)
            halos.append(_halo(expression, cut.index, place, dims[0], shape) if dims and not is_sum else 0)
        else:
            size = expression.sizes[cut.index]
            assert size is not None
            cut_dims = (shape[state] for state, shape in zip(states, shapes.values(), strict=True) if state >= 0)
            is_plain = all(length == size for length in cut_dims)
            found.append(Form(cut.index, size, tuple(states), tuple(halos) if any(halos) else (), is_plain))
    return tuple(dict.fromkeys(found))


def _halo(expression: Expression, index: str, place: int, dim: int, shape: tuple[int, ...]) -> int:
    """The places along a dim of an input that two neighbours need, and of which the other one has the part."""
    if place >= len(expression.inputs):
        return 0
    operand = expression.inputs[place]
    assert isinstance(operand, Access)
    at, size = operand.dims[dim], expression.sizes[index]
    if at is None or at.only == index or size is None or size < 2:
        return 0
    shapes = tuple(shape if k == place else _any_shape(other) for k, other in enumerate(expression.inputs))
    first, second = tiles(expression, shapes, index, (0, size // 2, size))
    regions = [tile.inputs[place] for tile in (first, second)]
    bounds = [None if region is None else region[dim] for region in regions]
    if bounds[0] is None or bounds[1] is None:
        return 0
    middle = shape[dim] // 2
    parts = (0, middle), (middle, shape[dim])
    return sum(
        end - begin - max(0, min(end, part[1]) - max(begin, part[0]))
        for (begin, end), part in zip((bounds[0], bounds[1]), parts, strict=True)
    )


def _any_shape(operand: object) -> tuple[int, ...]:
    return (1,) * len(operand.dims) if isinstance(operand, Access) else ()


def linear_forms(linearity: Linearity | None, inputs: int, outputs: int) -> tuple[Form, ...]:
    """The forms in which a linear operator takes terms of sums and gives terms of sums.

    Example:
        >>> [form.states for form in linear_forms(Linearity.EACH, 2, 1)]
        [(-2, -1, -2), (-1, -2, -2)]
    """
    made = (PARTIAL,) * outputs
    if linearity is None:
        return ()
    if linearity is Linearity.JOINT:
        return (Form("", 1, (PARTIAL,) * inputs + made),)
    summed = range(inputs) if linearity is Linearity.EACH else range(1)
    return tuple(Form("", 1, (*(PARTIAL if k == s else WHOLE for k in range(inputs)), *made)) for s in summed)
