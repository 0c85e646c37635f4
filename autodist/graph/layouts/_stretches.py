"""Operators that need more of an input than a replica's part of it: windows that move, slices, what goes around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph.layouts._base import WHOLE, Layout, Partial, Stretch, Tile, bounds_of_part
from autodist.graph.layouts._meaning import signature_of
from autodist.graph.layouts._shapes import Inference, StepShapes
from autodist.graph.operators import (
    Access,
    Affine,
    Expression,
    Lengths,
    Reducer,
    Signature,
    cuts,
    expression_of,
    span,
    tiles,
)
from autodist.graph.operators import Tile as PartOfWork


@dataclass(frozen=True)
class Stretched:
    """A way to cut an operator, in which replicas need stretches of some inputs.

    Attributes:
        index: The index that is cut.
        inputs: By input, how it must be shared.
        outputs: By output, how it is shared then.
    """

    index: str
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]


def stretched(node: Any, shapes: StepShapes, position: int, tile: Tile, parts: int) -> Stretched | None:
    """A way in which an input that is cut into parts is needed in stretches, or None.

    Args:
        node: The node.
        shapes: The shapes and small whole numbers of the step.
        position: The input.
        tile: How it is cut.
        parts: Into how many parts.
    """
    found = {_of_case(node, case, position, tile, parts) for case in shapes.cases}
    return found.pop() if len(found) == 1 else None


def _of_case(node: Any, case: Inference, position: int, tile: Tile, parts: int) -> Stretched | None:
    signature = signature_of(node, case)
    expression = expression_of(signature)
    operand = None if expression is None else expression.inputs[position]
    if expression is None or not isinstance(operand, Access) or None in expression.sizes.values():
        return None
    if None in signature.inputs:
        return None
    index = _outermost(operand.dims[tile.dim], expression)
    length = expression.sizes.get(index or "") or 0
    if index is None or length < parts or index not in {cut.index for cut in cuts(expression)}:
        return None
    bounds = (0, *(bounds_of_part(length, parts, part)[1] for part in range(parts)))
    known = tuple(() if shape is None else tuple(size or 0 for size in shape) for shape in signature.inputs)
    found = tiles(expression, known, index, bounds)
    outputs, inputs = _outputs(expression, index, signature, found), _inputs(expression, index, signature, found)
    return None if inputs is None or outputs is None else Stretched(index, inputs, outputs)


def _outermost(place: Affine | None, expression: Expression) -> str | None:
    """The index whose values are farthest apart in a dim."""
    terms = () if place is None else place.terms
    found = [(abs(factor), name) for name, factor in terms if (expression.sizes[name] or 0) > 1]
    free = [term for term in found if term[1] not in expression.joined]
    return max(free)[1] if free else None


def _outputs(
    expression: Expression, index: str, signature: Signature, parts: Sequence[PartOfWork]
) -> tuple[Layout, ...] | None:
    if index in expression.reduced:
        is_sum = expression.reduced[index] is Reducer.SUM and len(expression.outputs) == 1
        return (Partial(),) if is_sum else None
    found: list[Layout] = []
    for k, (access, shape) in enumerate(zip(expression.outputs, signature.outputs, strict=True)):
        dims = () if access is None else access.dims_of(index)
        made = [part.outputs[k] for part in parts]
        if len(dims) != 1 or shape is None:
            return None
        layout = _layout(dims[0], [region[dims[0]] for region in made if region], shape[dims[0]] or 0)
        if not isinstance(layout, Tile):
            return None
        found.append(layout)
    return tuple(found)


def _inputs(
    expression: Expression, index: str, signature: Signature, parts: Sequence[PartOfWork]
) -> tuple[Layout, ...] | None:
    found: list[Layout] = []
    for k, (operand, shape) in enumerate(zip(expression.inputs, signature.inputs, strict=True)):
        dims = operand.dims_of(index) if isinstance(operand, Access) else ()
        if len(dims) > 1 or (
            isinstance(operand, Lengths) and not _has_equal_lengths(operand, expression, index, parts)
        ):
            return None
        taken = [part.inputs[k] for part in parts]
        length = shape[dims[0]] or 0 if dims and shape else 0
        found.append(_layout(dims[0], [region[dims[0]] for region in taken if region], length) if dims else WHOLE)
    return tuple(found)


def _has_equal_lengths(operand: Lengths, expression: Expression, index: str, parts: Sequence[PartOfWork]) -> bool:
    """Whether the lengths that parts are given are those of the parts of a dim."""
    whole = {name: (0, size or 0) for name, size in expression.sizes.items()}
    for place in operand.dims:
        bounds = [span(place, part.ranges) for part in parts]
        _, length = span(place, whole)
        if place.factor(index) and bounds != [bounds_of_part(length, len(parts), k) for k in range(len(parts))]:
            return False
    return True


def _layout(dim: int, taken: list[tuple[int, int] | None], length: int) -> Layout:
    """The part that replicas have, where that is what they need."""
    bounds = tuple(found for found in taken if found is not None)
    own = tuple(bounds_of_part(length, len(bounds), part) for part in range(len(bounds)))
    return Tile(dim) if bounds == own else Stretch(dim, length, bounds)
