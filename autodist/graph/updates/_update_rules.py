"""Which ops of an optimizer's update compute each part of a variable from the same part of their inputs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from autodist.graph._graph_def import constant_value, output_shape
from autodist.graph.operators import (
    Asks,
    Handle,
    Passes,
    RangeUse,
    Reducer,
    broadcasts,
    meaning,
    passes_on,
    puts_rows_together,
)


class Domain(enum.Enum):
    """The meaning of the dims of a tensor of an update."""

    DENSE = "dense"
    """The variable's own shape."""
    VALUES = "values"
    """Rows of the variable, one per index of a sparse gradient."""
    INDICES = "indices"
    """Row numbers."""
    POSITIONS = "positions"
    """Where, among distinct row numbers, each of them is (the second output of ``Unique``)."""
    SIZES = "sizes"
    """How many rows there are."""
    ROW_FLAGS = "row flags"
    """A truth value for each row of the variable, true of it if it is of any of the row's elements."""
    FLAG = "flag"
    """Whether any of the row flags is true."""
    SHAPE = "shape"
    """The variable's shape, as a sparse gradient has it."""
    LENGTH = "length"
    """Its first entry: the number of rows of the variable."""


Domains: TypeAlias = tuple[Domain, ...]


@dataclass(frozen=True)
class Argument:
    """An input of a node.

    Attributes:
        domain: Its domain; None for what comes from outside the update.
        shape: Static shape, None where it is not known.
        node: The node that makes it.
    """

    domain: Domain | None
    shape: tuple[int | None, ...] | None
    node: Any


def domains_of(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    """The domains of a node's outputs; None if it does not compute each part from the same part of its inputs.

    Args:
        node: One that changes no variable.
        arguments: Its inputs, at least one of which has a domain.
        shape: The variable's shape.
    """
    if passes_on(node.op, Passes.SAME, Passes.TYPE) and len(arguments) == 1:
        domain = arguments[0].domain
        return None if domain is None else (domain,)
    if meaning(node.op).asks in (Asks.LENGTHS, Asks.COUNT):
        return (Domain.SIZES,)  # the sizes of a tensor of the variable's shape are known, and not part of the update
    if _is_elementwise(node.op):
        return _elementwise(node, arguments, shape)
    rule = _rule_of(node.op)
    return None if rule is None else rule(node, arguments, shape)


def puts_all_together(node: Any, arguments: Sequence[Argument]) -> bool:
    """Whether a node puts elements of a tensor of the update together in a way that parts can do together.

    Args:
        node: One of :func:`~autodist.graph.updates.numbers_of_all`.
        arguments: Its inputs, at least one of which has a domain.
    """
    kind, *others = (argument.domain for argument in arguments)
    # How many rows a sparse gradient has is not known, nor where they are among those of the variable.
    is_dense = meaning(node.op).reducer is Reducer.MEAN or prod(size or 0 for size in output_shape(node) or ()) > 1
    return kind in ((Domain.DENSE,) if is_dense else (Domain.DENSE, Domain.VALUES)) and not any(others)


def is_aligned(op: str) -> bool:
    """Whether inputs from outside have the variable's dims, so that a part of the variable takes a part of them."""
    return _is_elementwise(op) or meaning(op).handle is Handle.ASSIGNS


def _is_elementwise(op: str) -> bool:
    return broadcasts(op) or meaning(op).chooses


def _is_gather(op: str) -> bool:
    lookup = meaning(op).lookup
    return lookup is not None and not (lookup.by_handle or lookup.by_coordinates)


def scatters(op: str) -> bool:
    """Whether an op changes the rows of variables that its indices name."""
    return meaning(op).handle is Handle.SCATTERS


def update_problem(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> str | None:
    """Why an op can't change one part of a variable without the rest; None if it can.

    Args:
        node: One that changes the variable or a slot.
        arguments: Its inputs, without the handles.
        shape: The variable's shape.
    """
    if meaning(node.op).handle is Handle.ASSIGNS:
        fits = (a.domain is Domain.DENSE or (a.domain is None and a.shape in ((), shape)) for a in arguments)
        return None if all(fits) else "takes something that has not the variable's shape"
    if not scatters(node.op):
        return "looks at the whole of the variable"
    kinds = [argument.domain for argument in arguments if argument.domain or argument.shape != ()]
    if Domain.INDICES not in kinds:
        return "changes rows that are not those of the gradient"
    return None if set(kinds) <= {Domain.INDICES, Domain.VALUES} else "takes rows that are not those of the gradient"


def _elementwise(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    found = {argument.domain for argument in arguments if argument.domain is not None}
    if len(found) > 1 or not found <= {Domain.DENSE, Domain.VALUES}:
        return None
    domain = found.pop()
    outside = [argument.shape for argument in arguments if argument.domain is None]
    allowed = (0, len(shape)) if meaning(node.op).has_one_shape else range(len(shape) + 1)
    fits = all(s is not None and len(s) in allowed and _fits(s, domain, shape) for s in outside)
    return (domain,) if fits else None


def _fits(outside: tuple[int | None, ...], domain: Domain, shape: tuple[int, ...]) -> bool:
    """Whether a tensor broadcasts to the domain's dims without adding to them."""
    trailing = shape[len(shape) - len(outside) :]
    if domain is Domain.VALUES and len(outside) == len(shape) and outside:
        trailing = (1, *trailing[1:])  # a tensor with a row per gradient row is not cut along with it
    return all(size in (1, dim) for size, dim in zip(outside, trailing, strict=True))


def _segments(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    kinds = tuple(argument.domain for argument in arguments)
    rows = (output_shape(node) or (None,))[0]
    if kinds == (Domain.VALUES, Domain.INDICES, None) and rows == shape[0]:
        return (Domain.DENSE,)
    if kinds == (Domain.VALUES, Domain.INDICES, Domain.LENGTH):
        return (Domain.DENSE,)
    return (Domain.VALUES,) if kinds == (Domain.VALUES, Domain.POSITIONS, Domain.SIZES) else None


def _gather(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    axis = constant_value(arguments[2].node) if len(arguments) > 2 else 0
    if axis is None or int(axis) != 0 or node.attr["batch_dims"].i:
        return None
    kinds = (arguments[0].domain, arguments[1].domain)
    return (Domain.VALUES,) if kinds in _GATHERED else None


_GATHERED = ((Domain.DENSE, Domain.INDICES), (Domain.VALUES, Domain.POSITIONS))


def _any(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    """``Any``: flags of a dense tensor's rows, or one flag of these; no other reduction has a domain."""
    dims = constant_value(arguments[1].node)
    if dims is None or node.attr["keep_dims"].b:
        return None
    kind, reduced = arguments[0].domain, sorted(int(dim) for dim in dims.reshape(-1))
    if kind is Domain.DENSE and reduced == list(range(1, len(shape))):
        return (Domain.ROW_FLAGS,)
    return (Domain.FLAG,) if kind is Domain.ROW_FLAGS and reduced == [0] else None


def _unique(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    return (Domain.INDICES, Domain.POSITIONS) if arguments[0].domain is Domain.INDICES else None


def _picked(node: Any, arguments: Sequence[Argument], shape: tuple[int, ...]) -> Domains | None:
    kind, *others = (argument.domain for argument in arguments)
    if others != [None, None, None]:
        return None
    begin = constant_value(arguments[1].node)
    is_first = begin is not None and begin.tolist() == [0] and node.attr["shrink_axis_mask"].i == 1
    if kind is Domain.SHAPE and is_first:
        return (Domain.LENGTH,)
    return (Domain.SIZES,) if kind is Domain.SIZES else None


_Rule: TypeAlias = Callable[[Any, Sequence[Argument], tuple[int, ...]], Domains | None]


def _rule_of(op: str) -> _Rule | None:
    if puts_rows_together(op):
        return _segments
    if _is_gather(op):
        return _gather
    if meaning(op).reducer is Reducer.ANY:
        return _any
    if meaning(op).finds_distinct:
        return _unique
    return _picked if meaning(op).range_use is RangeUse.STRIDES else None
