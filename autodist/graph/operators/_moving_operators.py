"""Operators that move, repeat or leave out elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Affine,
    Change,
    Expression,
    Lengths,
    Operand,
    Operator,
    Ranges,
    Shape,
    Signature,
    Size,
)
from autodist.graph.operators._intervals import is_cut, span
from autodist.graph.operators._kinds import Kind, Linearity, Passes, RangeUse
from autodist.graph.operators._reshape import reshaped
from autodist.graph.operators._strided import strided, strided_back, strided_back_tile, strided_tile
from autodist.graph.operators._whole_numbers import concatenated, side_by_side, sliced, strided_numbers


def _names(count: int) -> list[str]:
    return [f"d{d}" for d in range(count)]


def _sizes(names: list[str], shape: tuple[Size, ...]) -> dict[str, Size]:
    return dict(zip(names, shape, strict=True))


def _result(signature: Signature) -> tuple[list[str], tuple[Size, ...]] | None:
    shape = signature.outputs[0] if signature.outputs else None
    return None if shape is None else (_names(len(shape)), shape)


def _transposed(signature: Signature) -> Expression | None:
    found, order = _result(signature), signature.numbers(1)
    if found is None or order is None:
        return None
    names, shape = found
    taken = sorted(range(len(names)), key=lambda d: order[d])
    return Expression(_sizes(names, shape), (Access.by(*names),), (Access.by(*(names[d] for d in taken)), WHOLE))


def _expanded(signature: Signature) -> Expression | None:
    found, axis = _result(signature), signature.numbers(1)
    if found is None or axis is None:
        return None
    names, shape = found
    place = axis[0] % len(names)
    made = Access(tuple(Affine() if d == place else Affine.of(name) for d, name in enumerate(names)))
    kept = [name for d, name in enumerate(names) if d != place]
    sizes = {name: size for name, size in zip(names, shape, strict=True) if name in kept}
    return Expression(sizes, (made,), (Access.by(*kept), WHOLE))


def _squeezed(signature: Signature) -> Expression | None:
    shape = signature.inputs[0]
    if shape is None:
        return None
    dims = [d % len(shape) for d in signature.list("squeeze_dims")]
    if not dims and None in shape:
        return None
    gone = dims or [d for d, size in enumerate(shape) if size == 1]
    names = _names(len(shape))
    kept = {name: size for d, (name, size) in enumerate(zip(names, shape, strict=True)) if d not in gone}
    taken = Access(tuple(Affine() if d in gone else Affine.of(name) for d, name in enumerate(names)))
    return Expression(kept, (Access.by(*kept),), (taken,))


def _squeezed_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile that is one element long keeps the dim."""
    operand = expression.inputs[0]
    assert isinstance(operand, Access)
    return Change({"squeeze_dims": tuple(d for d, place in enumerate(operand.dims) if place == Affine())})


def _concatenated(signature: Signature) -> Expression | None:
    """Along the dim of the concatenation, a tile may have elements of some inputs only."""
    count = len(signature.inputs) - 1
    found, axis = _result(signature), signature.numbers(count)
    if found is None or axis is None:
        return None
    names, shape = found
    place = axis[0] % len(names)
    lengths = [given[place] if given is not None else None for given in signature.inputs[:count]]
    taken: list[Operand] = []
    begin = 0
    for length in lengths:
        own = None if None in lengths else Affine.of(names[place]) - begin
        taken.append(Access(tuple(own if d == place else Affine.of(name) for d, name in enumerate(names))))
        begin += length or 0
    joined = frozenset({names[place]} if None in lengths else ())
    return Expression(_sizes(names, shape), (Access.by(*names),), (*taken, WHOLE), {}, joined)


def _packed(signature: Signature) -> Expression | None:
    found = _result(signature)
    if found is None:
        return None
    names, shape = found
    place = signature.number("axis") % len(names)
    taken = Access.by(*(name for d, name in enumerate(names) if d != place))
    inputs = (taken,) * len(signature.inputs)
    return Expression(_sizes(names, shape), (Access.by(*names),), inputs, {}, frozenset({names[place]}))


def _unpacked(signature: Signature) -> Expression | None:
    shape = signature.inputs[0]
    if shape is None:
        return None
    names, place = _names(len(shape)), signature.number("axis") % len(shape)
    kept = {name: size for d, (name, size) in enumerate(zip(names, shape, strict=True)) if d != place}
    taken = Access.by(*(None if d == place else name for d, name in enumerate(names)))
    return Expression(kept, (Access.by(*kept),) * len(signature.outputs), (taken,))


def _split(signature: Signature) -> Expression | None:
    """``Split`` and ``SplitV``; which input is the tensor and which the dim differs."""
    position, at = (0, 2) if signature.op == "SplitV" else (1, 0)
    shape, axis = signature.inputs[position], signature.numbers(at)
    if shape is None or axis is None or None in signature.outputs:
        return None
    names, place = _names(len(shape)), axis[0] % len(shape)
    sizes = {name: size for d, (name, size) in enumerate(zip(names, shape, strict=True)) if d != place}
    made = []
    for k, result in enumerate(signature.outputs):
        sizes[f"p{k}"] = (result or ())[place]
        made.append(Access.by(*(f"p{k}" if d == place else name for d, name in enumerate(names))))
    taken = Access.by(*(None if d == place else name for d, name in enumerate(names)))
    inputs = tuple(taken if k == position else WHOLE for k in range(len(signature.inputs)))
    return Expression(sizes, tuple(made), inputs, {}, frozenset(f"p{k}" for k in range(len(made))))


def _sliced(signature: Signature) -> Expression | None:
    found, begin = _result(signature), signature.numbers(1)
    if found is None or begin is None:
        return None
    names, shape = found
    taken = Access(tuple(Affine.of(name) + first for name, first in zip(names, begin, strict=True)))
    lengths = Lengths(tuple(Affine.of(name) for name in names))
    return Expression(_sizes(names, shape), (Access.by(*names),), (taken, WHOLE, lengths))


def _from_begin(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """Along the dim that is cut, a tile's input is only the part that it takes, so its slice begins at 0 there."""
    operand, begin = expression.inputs[0], signature.constant(1).copy()
    assert isinstance(operand, Access)
    for dim, place in enumerate(operand.dims):
        if place is not None and is_cut(place, expression, ranges):
            begin[dim] = 0
    return Change(constants={1: begin})


def _padded(signature: Signature) -> Expression | None:
    """``Pad``; where ``MirrorPad`` pads, it can't be cut."""
    shape, paddings, found = signature.inputs[0], signature.numbers(1), _result(signature)
    if shape is None or paddings is None or found is None:
        return None
    names, result = found
    before, behind = paddings[0::2], paddings[1::2]
    mirrored = [signature.op == "MirrorPad" and bool(a or b) for a, b in zip(before, behind, strict=True)]
    taken = Access(tuple(None if m else Affine.of(n) - a for n, a, m in zip(names, before, mirrored, strict=True)))
    inputs: tuple[Operand, ...] = (taken, *(WHOLE,) * (len(signature.inputs) - 1))
    joined = frozenset(name for name, m in zip(names, mirrored, strict=True) if m)
    return Expression(_sizes(names, result), (Access.by(*names),), inputs, {}, joined)


def _padded_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    operand, shape, paddings = expression.inputs[0], signature.inputs[0], signature.constant(1)
    assert isinstance(operand, Access)
    assert shape is not None
    found = paddings.copy()
    for dim, (place, size) in enumerate(zip(operand.dims, shape, strict=True)):
        if place is None or size is None:
            continue
        low, high = span(place, ranges)
        found[dim] = (max(0, min(-low, high - low)), max(0, min(high - size, high - low)))
    return Change(constants={1: found})


def _tiled(signature: Signature) -> Expression | None:
    """The whole tensor, repeated along each dim."""
    shape, multiples = signature.inputs[0], signature.numbers(1)
    if shape is None or multiples is None:
        return None
    names = _names(len(shape))
    made, sizes = [], _sizes(names, shape)
    for name, size, times in zip(names, shape, multiples, strict=True):
        if times == 1:
            made.append(Affine.of(name))
        elif size is None:
            return None
        else:
            sizes[f"t{name}"] = times
            made.append(Affine.of(f"t{name}", size) + Affine.of(name))
    lengths = Lengths(tuple(Affine.of(f"t{name}") if f"t{name}" in sizes else Affine() for name in names))
    return Expression(sizes, (Access(tuple(made)),), (Access.by(*names), lengths))


def _broadcast(signature: Signature) -> Expression | None:
    shape, found = signature.inputs[0], _result(signature)
    if shape is None or found is None:
        return None
    names, result = found
    offset = len(names) - len(shape)
    places = ((size, offset + d) for d, size in enumerate(shape))
    taken = Access(tuple(Affine() if s == 1 and result[d] != 1 else Affine.of(names[d]) for s, d in places))
    lengths = Lengths(tuple(Affine.of(name) for name in names))
    return Expression(_sizes(names, result), (Access.by(*names),), (taken, lengths))


def _filled(signature: Signature) -> Expression | None:
    found = _result(signature)
    if found is None:
        return None
    names, shape = found
    lengths = Lengths(tuple(Affine.of(name) for name in names))
    return Expression(_sizes(names, shape), (Access.by(*names),), (lengths, WHOLE))


def _turned(signature: Signature) -> Expression | None:
    """``ReverseV2``: from the last to the first along some dims."""
    shape, axes = signature.inputs[0], signature.numbers(1)
    if shape is None or axes is None:
        return None
    gone, names = {axis % len(shape) for axis in axes}, _names(len(shape))
    if any(shape[d] is None for d in gone):
        joined = frozenset(names[d] for d in gone)
        return Expression(_sizes(names, shape), (Access.by(*names),), (Access.by(*names), WHOLE), {}, joined)
    places = enumerate(zip(names, shape, strict=True))
    taken = (Affine.of(n, -1) + ((s or 1) - 1) if d in gone else Affine.of(n) for d, (n, s) in places)
    return Expression(_sizes(names, shape), (Access.by(*names),), (Access(tuple(taken)), WHOLE))


def _rolled(signature: Signature) -> Expression | None:
    shape, shifts, axes = signature.inputs[0], signature.numbers(1), signature.numbers(2)
    if shape is None or axes is None:
        return None
    names = _names(len(shape))
    taken = [Affine.of(name) for name in names]
    joined: set[str] = set()
    for k, axis in enumerate(axes):
        d = axis % len(shape)
        if shifts is None or shape[d] is None:
            joined.add(names[d])
        else:
            taken[d] = Affine(taken[d].terms, taken[d].offset - shifts[k], around=True)
    given = Access(tuple(taken))
    return Expression(_sizes(names, shape), (Access.by(*names),), (given, WHOLE, WHOLE), {}, frozenset(joined))


def _rolled_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile is given the elements that it has after the roll."""
    operand, shape, shifts = expression.inputs[0], signature.inputs[0], signature.constant(1)
    assert isinstance(operand, Access)
    assert shape is not None
    axes = (axis % len(shape) for axis in signature.numbers(2) or ())
    is_kept = [not is_cut(operand.dims[d] or Affine(), expression, ranges) for d in axes]
    return Change(constants={1: np.reshape(np.where(is_kept, np.reshape(shifts, [-1]), 0), np.shape(shifts))})


def _sequences(signature: Signature) -> Expression | None:
    """``ReverseSequence``: along time, as far as each example goes."""
    shape = signature.inputs[0]
    if shape is None:
        return None
    names = _names(len(shape))
    lengths = Access.by(names[signature.number("batch_dim")])
    joined = frozenset({names[signature.number("seq_dim")]})
    return Expression(_sizes(names, shape), (Access.by(*names),), (Access.by(*names), lengths), {}, joined)


def _in_blocks(signature: Signature) -> Expression | None:
    """``SpaceToDepth``: each block of an image becomes the channels of one place."""
    return _blocks(signature, signature.inputs[0], to_depth=True)


def _out_of_blocks(signature: Signature) -> Expression | None:
    """``DepthToSpace``: the opposite."""
    return _blocks(signature, signature.outputs[0], to_depth=False)


def _blocks(signature: Signature, shape: Shape, *, to_depth: bool) -> Expression | None:
    side = signature.number("block_size")
    if shape is None or signature.text("data_format") not in ("", "NHWC"):
        return None
    batch, height, width, channels = shape
    if channels is None:
        return None
    sizes = {
        "n": batch, "h": None if height is None else height // side, "w": None if width is None else width // side,
        "y": side, "x": side, "c": channels,
    }  # fmt: skip
    space = Access(
        (Affine.of("n"), Affine.of("h", side) + Affine.of("y"), Affine.of("w", side) + Affine.of("x"), Affine.of("c"))
    )
    place = Affine.of("y", side * channels) + Affine.of("x", channels) + Affine.of("c")
    depth = Access((Affine.of("n"), Affine.of("h"), Affine.of("w"), place))
    joined = frozenset("yxc") if side > 1 else frozenset()
    return Expression(sizes, (depth if to_depth else space,), (space if to_depth else depth,), {}, joined)


def _move(name: str, describe: Any, **more: Any) -> Operator:
    return Operator(name, Kind.MOVING, describe, **{"linearity": Linearity.FIRST, **more})


OPERATORS = (
    _move("Reshape", reshaped, passes=Passes.FORM, is_free=True),
    _move("ExpandDims", _expanded, passes=Passes.FORM),
    _move("Squeeze", _squeezed, adapt=_squeezed_tile, passes=Passes.FORM),
    _move("Transpose", _transposed, passes=Passes.ORDER),
    _move("ConjugateTranspose", _transposed),
    _move("ConcatV2", _concatenated, linearity=Linearity.JOINT, range_use=RangeUse.JOINS, numbers=concatenated),
    _move("Pack", _packed, linearity=Linearity.JOINT, numbers=side_by_side),
    _move("Unpack", _unpacked, picks=True),
    _move("Split", _split, linearity=None, picks=True, source=1, range_use=RangeUse.SPLITS),
    _move("SplitV", _split, picks=True),
    _move("Slice", _sliced, adapt=_from_begin, picks=True, range_use=RangeUse.SLICES, numbers=sliced),
    _move("StridedSlice", strided, adapt=strided_tile, picks=True, range_use=RangeUse.STRIDES, numbers=strided_numbers),
    _move("StridedSliceGrad", strided_back, adapt=strided_back_tile, linearity=None),
    _move("Pad", _padded, adapt=_padded_tile),
    _move("PadV2", _padded, adapt=_padded_tile, linearity=None),
    _move("MirrorPad", _padded, adapt=_padded_tile, needs_rows=True),
    _move("Tile", _tiled, creates=True),
    _move("BroadcastTo", _broadcast, creates=True),
    _move("Fill", _filled, linearity=None, creates=True),
    _move("ReverseV2", _turned, passes=Passes.ORDER),
    _move("Roll", _rolled, adapt=_rolled_tile, passes=Passes.ORDER),
    _move("ReverseSequence", _sequences),
    _move("SpaceToDepth", _in_blocks),
    _move("DepthToSpace", _out_of_blocks),
)
