"""Convolutions and their gradients: windows that move over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from autodist.graph.operators._base import (
    Access,
    Adapt,
    Affine,
    Change,
    Describe,
    Elements,
    Expression,
    Lengths,
    Operator,
    Ranges,
    Shape,
    Signature,
    Size,
)
from autodist.graph.operators._images import (
    RANK_OF_IMAGES,
    SPACE,
    WINDOW,
    Images,
    by_image,
    fixed_indices,
    known_shapes,
    named_sizes,
)
from autodist.graph.operators._intervals import span
from autodist.graph.operators._kinds import Kind, Linearity, Reducer

_IN_BLOCK = ("a", "b", "e")
_NEAR = ("x", "y", "z")


@dataclass(frozen=True)
class _Parts:
    """The parts of a convolution; its gradients are the same sum, with another of the three as the result."""

    sizes: dict[str, Size]
    image: Access
    filter: Access
    result: Access
    fixed: frozenset[str]
    channels: tuple[str, ...]


def _parts(signature: Signature, image: Shape, filters: Shape, result: Shape) -> _Parts | None:
    known = known_shapes(image, filters, result)
    if known is None or None in known[1]:
        return None
    image, filters, result = known
    images, dims = Images.of(signature, len(image)), len(image) - 2
    batch, height, channels = images.sizes(image)
    _, out, _ = images.sizes(result)
    window = tuple(size for size in filters[:dims] if size is not None)
    places = images.moved(images.pads(height, window, out))
    space = [Affine.of(SPACE[d]) for d in range(dims)]
    if signature.op.startswith("Depthwise"):
        many = filters[-1] or 1
        sizes = named_sizes(batch, out, window, c=channels, q=many)
        made = Affine.of("c", many) + Affine.of("q")
        seen = Access.by(*WINDOW[:dims], "c", "q")
        joined = fixed_indices(places, dims) | ({"q"} if many > 1 else frozenset())
        made_at = images.access("n", list(space), made)
        return _Parts(sizes, images.access("n", places, Affine.of("c")), seen, made_at, joined, ())
    sizes = named_sizes(batch, out, window, c=filters[-2], o=filters[-1])
    grouped = channels != filters[-2]
    taken = None if grouped else Affine.of("c")
    joined = fixed_indices(places, dims) | ({"c", "o"} if grouped else frozenset())
    seen = Access.by(*WINDOW[:dims], "c", "o")
    made_at = images.access("n", list(space), Affine.of("o"))
    return _Parts(sizes, images.access("n", places, taken), seen, made_at, joined, ("c", "o"))


def _convolved(signature: Signature) -> Expression | None:
    found = _parts(signature, signature.inputs[0], signature.inputs[1], signature.outputs[0])
    if found is None:
        return None
    window = dict.fromkeys((n for n in found.sizes if n in WINDOW), Reducer.SUM)
    summed = {**window, **({"c": Reducer.SUM} if found.channels else {})}
    return Expression(found.sizes, (found.result,), (found.image, found.filter), summed, found.fixed)


def _filter_gradient(signature: Signature) -> Expression | None:
    image, _, upstream = signature.inputs
    found = _parts(signature, image, signature.outputs[0], upstream)
    if found is None:
        return None
    summed = {name: Reducer.SUM for name in ("n", *SPACE) if name in found.sizes}
    sizes = Lengths(tuple(place for place in found.filter.dims if place is not None))
    return Expression(found.sizes, (found.filter,), (found.image, sizes, found.result), summed, found.fixed)


def _needs_compiler(image: int, filters: int) -> Callable[[Signature], bool]:
    """Gradients for groups of channels, and volumes with groups or with channels first, have no kernel for CPUs.

    Args:
        image: The input that is the image, -1 for the result.
        filters: The same for the filters.
    """

    def needs(signature: Signature) -> bool:
        shapes = (*signature.inputs, signature.outputs[0])
        known = known_shapes(shapes[image], shapes[filters])
        if known is None:
            return False
        first, is_volume = signature.text("data_format").startswith("NC"), len(known[0]) > RANK_OF_IMAGES
        is_gradient = -1 in (image, filters)
        has_groups = known[0][1 if first else -1] != known[1][-2]
        return (has_groups and (is_gradient or is_volume)) or (first and is_volume)

    return needs


def _input_gradient(signature: Signature) -> Expression | None:
    """A place of the image is a row of blocks, of as many places as a window moves on, and a place in its block.

    Only so are the gradients that it takes at places that depend on an index by a factor of 1.
    """
    _, filters, upstream = signature.inputs
    found = _parts(signature, signature.outputs[0], filters, upstream)
    shape = signature.outputs[0]
    if found is None or shape is None:
        return None
    images = Images.of(signature, len(shape))
    _, space, _ = images.sizes(shape)
    sizes = dict(found.sizes)
    made_at: list[Affine | None] = []
    taken_at: list[Affine | None] = []
    joined = set(found.fixed)
    for d, move in enumerate(_moves_of(found, images)):
        name, size = SPACE[d], space[d]
        blocks = None if move is None or size is None or size % move.stride else size // move.stride
        if move is None or blocks is None:
            joined.add(name)
            sizes[name] = size
            made_at.append(Affine.of(name))
            taken_at.append(None)
            continue
        sizes |= {name: blocks, _IN_BLOCK[d]: move.stride, _NEAR[d]: move.near}
        joined |= {_IN_BLOCK[d], _NEAR[d]}
        made_at.append(Affine.of(name, move.stride) + Affine.of(_IN_BLOCK[d]) if move.stride > 1 else Affine.of(name))
        taken_at.append(Affine.of(name) + Affine.of(_NEAR[d]) + move.first)
    made = images.access("n", made_at, _channel(found.image, images))
    taken = images.access("n", taken_at, _channel(found.result, images))
    window = dict.fromkeys((n for n in sizes if n in WINDOW), Reducer.SUM)
    summed = {**window, **({"o": Reducer.SUM} if found.channels else {})}
    lengths = Lengths(tuple(place for place in made.dims if place is not None))
    if len(lengths.dims) < len(shape):  # groups of channels: their number is the image's
        return None
    return Expression(sizes, (made,), (lengths, found.filter, taken), summed, frozenset(joined))


@dataclass(frozen=True)
class _Move:
    """How a window moves along a dim.

    Attributes:
        stride: By how many places.
        span: How many places it covers, those between its own with it.
        pad: How far the first window begins before the image.
    """

    stride: int
    span: int
    pad: int

    @property
    def first(self) -> int:
        """The first window that reaches into a block of places, counted from the number of the block."""
        return -((self.span - 1 - self.pad) // self.stride)

    @property
    def near(self) -> int:
        """How many windows reach into a block."""
        return (self.stride - 1 + self.pad) // self.stride - self.first + 1


def _moves_of(found: _Parts, images: Images) -> list[_Move | None]:
    """By spatial dim, how the window moves; None for all if a padding is not known, or is wider than the window."""
    moved = found.image.dims[2:] if images.first else found.image.dims[1:-1]
    moves: list[_Move | None] = []
    for d, place in enumerate(moved):
        span_of_window = ((found.sizes[WINDOW[d]] or 1) - 1) * images.dilations[d] + 1
        pad = None if place is None else -place.offset
        is_known = pad is not None and pad < span_of_window
        moves.append(_Move(images.strides[d], span_of_window, pad) if is_known and pad is not None else None)
    return [None] * len(moves) if None in moves else moves


def _channel(access: Access, images: Images) -> Affine | None:
    return access.dims[1 if images.first else -1]


def _padded_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile of an image is padded only where it lies at the image's border."""
    found = _padding_of_tile(signature, expression, ranges)
    paddings = tuple(number for pair in found for number in pair)
    return Change({"padding": "EXPLICIT", "explicit_paddings": paddings}) if found else Change()


def _tile_of_filters(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """The same for a gradient of filters. With explicit paddings, its kernel takes five times as long."""
    found = _padding_of_tile(signature, expression, ranges)
    return Change({"padding": "VALID", "explicit_paddings": ()}, padded={0: found}) if found else Change()


def _padding_of_tile(signature: Signature, expression: Expression, ranges: Ranges) -> tuple[tuple[int, int], ...]:
    """By dim of the images, the padding of a tile; empty if that is none, or what the attributes say."""
    operand, shape = expression.inputs[0], signature.inputs[0]
    if signature.text("padding") == "VALID" or not isinstance(operand, Access) or shape is None:
        return ()
    if all(ranges.get(n) == (0, expression.sizes.get(n)) for n in (*SPACE, *WINDOW) if n in expression.sizes):
        return ()
    found: list[tuple[int, int]] = []
    for place, size in zip(operand.dims, shape, strict=True):
        is_moved = place is not None and not set(WINDOW).isdisjoint(place.indices)
        low, high = span(place, ranges) if place is not None and is_moved else (0, 0)
        found.append((max(0, -low), max(0, high - size)) if is_moved and size is not None else (0, 0))
    return tuple(found)


def _tile_of_images(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile of an image's gradient: that of a larger one without padding, in which it has its place.

    With explicit paddings, the kernel takes five times as long.
    """
    operand, made, shape = expression.inputs[2], expression.outputs[0], signature.inputs[2]
    assert isinstance(operand, Access)
    assert made is not None
    found = _parts(signature, signature.outputs[0], signature.inputs[1], shape)
    if found is None or shape is None or all(ranges[n] == (0, expression.sizes[n]) for n in SPACE if n in ranges):
        return Change()
    images = Images.of(signature, len(shape))
    moves = dict(zip(range(2, 4) if images.first else range(1, 3), _moves_of(found, images), strict=True))
    around: list[tuple[int, int]] = []
    for dim, (place, own, size) in enumerate(zip(operand.dims, made.dims, shape, strict=True)):
        move = moves.get(dim)
        if move is None or own is None or size is None:
            around.append((0, 0))
            continue
        (begin, end), (low, high) = span(own, ranges), (0, size) if place is None else span(place, ranges)
        first, last = max(0, min(low, size)), max(0, min(high, size))
        before = move.pad + begin - move.stride * first
        covered = (last - first - 1) * move.stride + move.span
        around.append((before, max(0, covered - before - (end - begin))))
    return Change({"padding": "VALID", "explicit_paddings": ()}, cropped=tuple(around))


def _flops(node: Any, inputs: list[str], sizes: Elements) -> float:
    """Each output has a product with every weight of one filter."""
    return 2.0 * sizes.of(node.name) * _weights(node, sizes.shape(inputs[1]))


def _input_gradient_flops(node: Any, inputs: list[str], sizes: Elements) -> float:
    """As many products as the convolution itself: each gradient of an output with every weight of its filter."""
    return 2.0 * sizes.of(inputs[2]) * _weights(node, sizes.shape(inputs[1]))


def _filter_gradient_flops(node: Any, inputs: list[str], sizes: Elements) -> float:
    return 2.0 * sizes.of(inputs[2]) * _weights(node, sizes.shape(node.name))


def _weights(node: Any, kernel: tuple[int, ...]) -> float:
    """How many weights one filter has; in a depthwise convolution it looks at one channel only."""
    return float(prod(kernel[:2] if node.op.startswith("Depthwise") else kernel[:-1]))


def _product(
    name: str,
    describe: Describe | None,
    flops: Any,
    *,
    adapt: Adapt | None = None,
    needs_compiler: Callable[[Signature], bool] | None = None,
) -> Operator:
    alike: dict[str, Any] = {"linearity": Linearity.EACH, "reducer": Reducer.SUM, "needs_rows": True}
    return Operator(name, Kind.CONVOLUTION, describe, adapt, flops=flops, needs_compiler=needs_compiler, **alike)


_RESULT, _FILTERS, _IMAGES = _needs_compiler(0, 1), _needs_compiler(0, -1), _needs_compiler(-1, 1)

OPERATORS = (
    _product("Conv2D", _convolved, _flops, adapt=_padded_tile, needs_compiler=_RESULT),
    _product("DepthwiseConv2dNative", _convolved, _flops, adapt=_padded_tile),
    _product("Conv3D", by_image(0, channels=False), _flops, needs_compiler=_RESULT),
    _product(
        "Conv2DBackpropFilter",
        _filter_gradient,
        _filter_gradient_flops,
        adapt=_tile_of_filters,
        needs_compiler=_FILTERS,
    ),
    _product("DepthwiseConv2dNativeBackpropFilter", _filter_gradient, _filter_gradient_flops, adapt=_tile_of_filters),
    _product("Conv3DBackpropFilterV2", None, _filter_gradient_flops, needs_compiler=_FILTERS),
    _product(
        "Conv2DBackpropInput",
        _input_gradient,
        _input_gradient_flops,
        adapt=_tile_of_images,
        needs_compiler=_IMAGES,
    ),
    _product(
        "DepthwiseConv2dNativeBackpropInput",
        _input_gradient,
        _input_gradient_flops,
        adapt=_tile_of_images,
    ),
    _product(
        "Conv3DBackpropInputV2",
        by_image(2, channels=False, sizes_at=0),
        _input_gradient_flops,
        needs_compiler=_IMAGES,
    ),
)
