"""``StridedSlice`` and its gradient, ``StridedSliceGrad``."""

from __future__ import annotations

from autodist.graph.operators._base import WHOLE, Access, Affine, Change, Expression, Lengths, Ranges, Signature, Size
from autodist.graph.operators._intervals import is_cut, span


def strided(signature: Signature) -> Expression | None:
    """``StridedSlice`` with constant bounds."""
    shape, result = signature.inputs[0], signature.outputs[0]
    bounds = [signature.numbers(k) for k in (1, 2, 3)]
    if shape is None or result is None or None in bounds:
        return None
    begin, _, strides = (bound or () for bound in bounds)
    entries = _entries(signature, len(begin), len(shape))
    if entries is None:
        return None
    made: list[Affine] = []
    taken: list[Affine] = []
    sizes: dict[str, Size] = {}
    for kind, at in entries:
        if kind == "new":
            made.append(Affine())
            continue
        size, first = shape[len(taken)], 0 if at is None else _first(signature, at, begin, strides, shape[len(taken)])
        if first is None:
            return None
        if kind == "picked":
            taken.append(Affine((), first))
            continue
        name = f"d{len(made)}"
        sizes[name] = result[len(made)] if len(made) < len(result) else size
        made.append(Affine.of(name))
        taken.append(Affine.of(name, 1 if at is None else strides[at]) + first)
    return Expression(sizes, (Access(tuple(made)),), (Access(tuple(taken)), WHOLE, WHOLE, WHOLE))


def _entries(signature: Signature, count: int, rank: int) -> list[tuple[str, int | None]] | None:
    """The use of the next dim by each entry of the slice: new, picked, or a range; the last dims are taken whole."""
    masks = {name: signature.number(f"{name}_mask") for name in ("new_axis", "ellipsis", "shrink_axis")}
    taken = sum(not (masks["new_axis"] | masks["ellipsis"]) >> k & 1 for k in range(count))
    if taken > rank:
        return None
    found: list[tuple[str, int | None]] = []
    for k in range(count):
        if masks["ellipsis"] >> k & 1:
            found += [("range", None)] * (rank - taken)
        elif masks["new_axis"] >> k & 1:
            found.append(("new", k))
        else:
            found.append(("picked" if masks["shrink_axis"] >> k & 1 else "range", k))
    behind = 0 if masks["ellipsis"] else rank - taken
    return found + [("range", None)] * behind


def _first(signature: Signature, at: int, begin: tuple[int, ...], strides: tuple[int, ...], size: Size) -> int | None:
    """Where an entry begins; None where that depends on a size that is open."""
    if signature.number("begin_mask") >> at & 1 and not signature.number("shrink_axis_mask") >> at & 1:
        return 0 if strides[at] > 0 else None if size is None else size - 1
    if begin[at] >= 0 and (size is None or begin[at] < size):
        return begin[at]
    return None if size is None else max(0, min(size - 1, begin[at] + size if begin[at] < 0 else begin[at]))


def strided_back(signature: Signature) -> Expression | None:
    """``StridedSliceGrad``: a slice in its place among zeros; not cut along dims of which it has every second place."""
    shape, given = signature.outputs[0], signature.inputs[4]
    bounds = [signature.numbers(k) for k in (1, 3)]
    if shape is None or given is None or None in bounds:
        return None
    begin, strides = (bound or () for bound in bounds)
    entries = _entries(signature, len(begin), len(shape))
    if entries is None:
        return None
    made: list[Affine] = []
    taken: list[Affine | None] = []
    names = [f"d{d}" for d in range(len(shape))]
    joined: set[str] = set()
    for kind, at in entries:
        if kind == "new":
            taken.append(Affine())
            continue
        size, name = shape[len(made)], names[len(made)]
        made.append(Affine.of(name))
        if kind == "picked":
            joined.add(name)
            continue
        first = 0 if at is None else _first(signature, at, begin, strides, size) if strides[at] == 1 else None
        taken.append(None if first is None else Affine.of(name) - first)
        joined.update((name,) if first is None else ())
    lengths = Lengths(tuple(made))
    inputs = (lengths, WHOLE, WHOLE, WHOLE, Access(tuple(taken)))
    return Expression(dict(zip(names, shape, strict=True)), (Access(tuple(made)),), inputs, {}, frozenset(joined))


def strided_back_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """Along the dim that is cut, a tile is given its part of the slice, perhaps nothing, and zeros lie around that."""
    operand, given = expression.inputs[4], signature.inputs[4]
    assert isinstance(operand, Access)
    assert given is not None
    entries = _entries(signature, len(signature.numbers(1) or ()), len(expression.sizes)) or []
    begin, end = signature.constant(1).copy(), signature.constant(2).copy()
    masks = {name: signature.number(name) for name in ("begin_mask", "end_mask")}
    dim = 0
    for kind, at in entries:
        if kind == "picked":
            continue
        place, size = operand.dims[dim], given[dim] or 0
        dim += 1
        if at is None or place is None or not is_cut(place, expression, ranges):
            continue
        low, high = span(place, ranges)
        begin[at], end[at] = (min(max(0, bound), size) - low for bound in (low, high))
        masks = {name: mask & ~(1 << at) for name, mask in masks.items()}
    return Change(masks, {1: begin, 2: end})


def strided_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """Along the dim that is cut, a tile's input is only the part that it takes: its slice takes all of it there."""
    operand, strides = expression.inputs[0], signature.constant(3)
    assert isinstance(operand, Access)
    entries = _entries(signature, len(strides), len(operand.dims)) or []
    begin, end = signature.constant(1).copy(), signature.constant(2).copy()
    masks = {name: signature.number(name) for name in ("begin_mask", "end_mask")}
    dim = 0
    for kind, at in entries:
        if kind == "new":
            continue
        place = operand.dims[dim]
        dim += 1
        if at is None or place is None or not is_cut(place, expression, ranges):
            continue
        low, high = span(place, ranges)
        length = high - low
        begin[at], end[at] = (0, length) if strides[at] > 0 else (length - 1, -length - 1)
        masks = {name: mask & ~(1 << at) for name, mask in masks.items()}
    return Change(masks, {1: begin, 2: end})
