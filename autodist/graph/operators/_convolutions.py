"""Convolutions, pooling and their gradients: windows that move over images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Affine,
    Change,
    Describe,
    Elements,
    Expression,
    Lengths,
    Operand,
    Operator,
    Ranges,
    Shape,
    Signature,
    Size,
)
from autodist.graph.operators._intervals import span
from autodist.graph.operators._kinds import Kind, Linearity, Reducer

_SPACE = ("h", "w", "v")
_WINDOW = ("i", "j", "l")
_RANK_OF_IMAGES = 4


@dataclass(frozen=True)
class _Images:
    """How images lie in their tensors, and how a window moves over them.

    Attributes:
        first: Whether channels precede height and width.
        strides: By spatial dim.
        dilations: By spatial dim.
        padding: What the attribute says.
        before: Explicit padding before each spatial dim.
    """

    first: bool
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    before: tuple[int, ...]

    @classmethod
    def of(cls, signature: Signature, rank: int) -> _Images:
        first = signature.text("data_format").startswith("NC")
        space = slice(2, None) if first else slice(1, -1)
        strides = signature.list("strides") or (1,) * rank
        dilations = signature.list("dilations") or (1,) * rank
        explicit = signature.list("explicit_paddings")
        before = explicit[0::2][space] if explicit else (0,) * (rank - 2)
        return cls(first, strides[space], dilations[space], signature.text("padding"), before)

    def access(self, batch: str, places: list[Affine | None], channel: Affine | None) -> Access:
        """The dims of a tensor of images."""
        middle = (channel, *places) if self.first else (*places, channel)
        return Access((Affine.of(batch), *middle))

    def sizes(self, shape: tuple[Size, ...]) -> tuple[Size, tuple[Size, ...], Size]:
        """Number of images, sizes in space, and channels."""
        return (shape[0], shape[2:], shape[1]) if self.first else (shape[0], shape[1:-1], shape[-1])

    def pads(self, image: tuple[Size, ...], window: tuple[int, ...], result: tuple[Size, ...]) -> list[int | None]:
        """How far the first window begins before the image, by spatial dim; None where it is not known."""
        if self.padding == "VALID":
            return [0] * len(image)
        if self.padding == "EXPLICIT":
            return list(self.before)
        return [
            None if size is None or out is None else max((out - 1) * s + (k - 1) * d + 1 - size, 0) // 2
            for size, out, s, d, k in zip(image, result, self.strides, self.dilations, window, strict=True)
        ]

    def moved(self, pads: list[int | None]) -> list[Affine | None]:
        """The places in the image that the window takes for each place of the result."""
        steps = zip(_SPACE, self.strides, _WINDOW, self.dilations, pads, strict=False)
        return [None if pad is None else Affine.of(n, s) + Affine.of(k, d) - pad for n, s, k, d, pad in steps]


def _known(*shapes: Shape) -> tuple[tuple[Size, ...], ...] | None:
    found = tuple(shape for shape in shapes if shape is not None)
    return found if len(found) == len(shapes) else None


def _named(batch: Size, space: tuple[Size, ...], window: tuple[Size, ...], **channels: Size) -> dict[str, Size]:
    names = zip((*_SPACE[: len(space)], *_WINDOW[: len(window)]), (*space, *window), strict=True)
    return {"n": batch, **dict(names), **channels}


def _fixed(places: list[Affine | None], dims: int) -> frozenset[str]:
    """The indices along which nothing can be cut: those of the window, and of space where padding is not known."""
    return frozenset((*_WINDOW[:dims], *(_SPACE[d] for d, place in enumerate(places) if place is None)))


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
    known = _known(image, filters, result)
    if known is None or None in known[1]:
        return None
    image, filters, result = known
    images, dims = _Images.of(signature, len(image)), len(image) - 2
    batch, height, channels = images.sizes(image)
    _, out, _ = images.sizes(result)
    window = tuple(size for size in filters[:dims] if size is not None)
    places = images.moved(images.pads(height, window, out))
    space = [Affine.of(_SPACE[d]) for d in range(dims)]
    if signature.op.startswith("Depthwise"):
        many = filters[-1] or 1
        sizes = _named(batch, out, window, c=channels, q=many)
        made = Affine.of("c", many) + Affine.of("q")
        seen = Access.by(*_WINDOW[:dims], "c", "q")
        joined = _fixed(places, dims) | ({"q"} if many > 1 else frozenset())
        made_at = images.access("n", list(space), made)
        return _Parts(sizes, images.access("n", places, Affine.of("c")), seen, made_at, joined, ())
    sizes = _named(batch, out, window, c=filters[-2], o=filters[-1])
    grouped = channels != filters[-2]
    taken = None if grouped else Affine.of("c")
    joined = _fixed(places, dims) | ({"c", "o"} if grouped else frozenset())
    seen = Access.by(*_WINDOW[:dims], "c", "o")
    made_at = images.access("n", list(space), Affine.of("o"))
    return _Parts(sizes, images.access("n", places, taken), seen, made_at, joined, ("c", "o"))


def _convolved(signature: Signature) -> Expression | None:
    found = _parts(signature, signature.inputs[0], signature.inputs[1], signature.outputs[0])
    if found is None:
        return None
    window = dict.fromkeys((n for n in found.sizes if n in _WINDOW), Reducer.SUM)
    summed = {**window, **({"c": Reducer.SUM} if found.channels else {})}
    return Expression(found.sizes, (found.result,), (found.image, found.filter), summed, found.fixed)


def _filter_gradient(signature: Signature) -> Expression | None:
    image, _, upstream = signature.inputs
    found = _parts(signature, image, signature.outputs[0], upstream)
    if found is None:
        return None
    summed = {name: Reducer.SUM for name in ("n", *_SPACE) if name in found.sizes}
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
        known = _known(shapes[image], shapes[filters])
        if known is None:
            return False
        first, is_volume = signature.text("data_format").startswith("NC"), len(known[0]) > _RANK_OF_IMAGES
        is_gradient = -1 in (image, filters)
        has_groups = known[0][1 if first else -1] != known[1][-2]
        return (has_groups and (is_gradient or is_volume)) or (first and is_volume)

    return needs


def _input_gradient(signature: Signature) -> Expression | None:
    """The upstream gradient's spatial dims are taken whole: with strides, places of the image have different terms."""
    _, filters, upstream = signature.inputs
    found = _parts(signature, signature.outputs[0], filters, upstream)
    shape = signature.outputs[0]
    if found is None or shape is None:
        return None
    images = _Images.of(signature, len(shape))
    _, space, _ = images.sizes(shape)
    dims = len(space)
    made = images.access("n", [Affine.of(_SPACE[d]) for d in range(dims)], _channel(found.image, images))
    sizes = {**found.sizes, **dict(zip(_SPACE, space, strict=False))}
    whole: list[Affine | None] = [None] * dims
    taken = images.access("n", whole, _channel(found.result, images))
    window = dict.fromkeys((n for n in sizes if n in _WINDOW), Reducer.SUM)
    summed = {**window, **({"o": Reducer.SUM} if found.channels else {})}
    joined = found.fixed | set(_SPACE[:dims])
    lengths = Lengths(tuple(place for place in made.dims if place is not None))
    if len(lengths.dims) < len(shape):  # groups of channels: their number is the image's
        return None
    return Expression(sizes, (made,), (lengths, found.filter, taken), summed, joined)


def _channel(access: Access, images: _Images) -> Affine | None:
    return access.dims[1 if images.first else -1]


def _pooled(signature: Signature) -> Expression | None:
    """Maxima and means of windows; means of windows with padding count what is inside of the image."""
    known = _known(signature.inputs[0], signature.outputs[0])
    if known is None:
        return None
    image, result = known
    images, dims = _Images.of(signature, len(image)), len(image) - 2
    window_dims = signature.list("ksize")
    window = window_dims[2:] if images.first else window_dims[1:-1]
    batch, space, channels = images.sizes(image)
    _, out, _ = images.sizes(result)
    pads: list[int | None] = images.pads(space, window, out) if images.padding == "VALID" else [None] * dims
    places = images.moved(pads)
    sizes = _named(batch, out, window, c=channels)
    made = images.access("n", [Affine.of(_SPACE[d]) for d in range(dims)], Affine.of("c"))
    reducer = Reducer.MAX if signature.op.startswith("Max") else Reducer.MEAN
    summed = dict.fromkeys(_WINDOW[:dims], reducer)
    return Expression(sizes, (made,), (images.access("n", places, Affine.of("c")),), summed, _fixed(places, dims))


def _by_image(*taken: int, channels: bool = True, sizes_at: int | None = None) -> Describe:
    """Each image by itself, and perhaps each channel; of these inputs, the others being taken whole.

    One input may be the shape of the result.
    """

    def describe(signature: Signature) -> Expression | None:
        shape = signature.outputs[0]
        if shape is None or any(signature.inputs[k] is None for k in taken):
            return None
        first = signature.text("data_format").startswith("NC")
        channel = 1 if first else len(shape) - 1
        names = ["n", *(f"d{d}" for d in range(1, len(shape)))]
        whole: list[str | None] = [None] * len(shape)
        whole[0] = "n"
        if channels:
            whole[channel] = names[channel]
        joined = frozenset(name for d, name in enumerate(names) if d and not (channels and d == channel))
        inputs: list[Operand] = [Access.by(*whole) if k in taken else WHOLE for k in range(len(signature.inputs))]
        if sizes_at is not None:
            inputs[sizes_at] = Lengths(tuple(Affine.of(name) for name in names))
        return Expression(dict(zip(names, shape, strict=True)), (Access.by(*names),), tuple(inputs), {}, joined)

    return describe


def _with_places(signature: Signature) -> Expression | None:
    """``MaxPoolWithArgmax``: the places are counted in each image, or in all of them."""
    found = _by_image(0, channels=False)(signature)
    if found is None or signature.flag("include_batch_in_index"):
        return None
    return replace(found, outputs=found.outputs * 2)


def _padded_tile(signature: Signature, expression: Expression, ranges: Ranges) -> Change:
    """A tile of an image is padded only where it lies at the image's border."""
    position = 0
    operand, shape = expression.inputs[position], signature.inputs[position]
    if signature.text("padding") == "VALID" or not isinstance(operand, Access) or shape is None:
        return Change()
    if all(ranges.get(n) == (0, expression.sizes.get(n)) for n in (*_SPACE, *_WINDOW) if n in expression.sizes):
        return Change()
    found: list[int] = []
    for place, size in zip(operand.dims, shape, strict=True):
        if place is None or size is None or len(place.terms) < 2:
            found += (0, 0)
            continue
        low, high = span(place, ranges)
        found += (max(0, -low), max(0, high - size))
    return Change({"padding": "EXPLICIT", "explicit_paddings": tuple(found)})


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


def _operator(name: str, describe: Describe) -> Operator:
    return Operator(name, Kind.CONVOLUTION, describe, needs_rows=True)


def _product(
    name: str,
    describe: Describe | None,
    flops: Any,
    *,
    pads: bool = False,
    needs_compiler: Callable[[Signature], bool] | None = None,
) -> Operator:
    adapt = _padded_tile if pads else None
    alike: dict[str, Any] = {"linearity": Linearity.EACH, "reducer": Reducer.SUM, "needs_rows": True}
    return Operator(name, Kind.CONVOLUTION, describe, adapt, flops=flops, needs_compiler=needs_compiler, **alike)


_PER_IMAGE = "LRN Dilation2D ExtractImagePatches ExtractVolumePatches"
_PER_CHANNEL = "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate"

_RESULT, _FILTERS, _IMAGES = _needs_compiler(0, 1), _needs_compiler(0, -1), _needs_compiler(-1, 1)

OPERATORS = (
    _product("Conv2D", _convolved, _flops, pads=True, needs_compiler=_RESULT),
    _product("DepthwiseConv2dNative", _convolved, _flops, pads=True),
    _product("Conv3D", _by_image(0, channels=False), _flops, needs_compiler=_RESULT),
    _product(
        "Conv2DBackpropFilter",
        _filter_gradient,
        _filter_gradient_flops,
        pads=True,
        needs_compiler=_FILTERS,
    ),
    _product("DepthwiseConv2dNativeBackpropFilter", _filter_gradient, _filter_gradient_flops, pads=True),
    _product("Conv3DBackpropFilterV2", None, _filter_gradient_flops, needs_compiler=_FILTERS),
    _product("Conv2DBackpropInput", _input_gradient, _input_gradient_flops, needs_compiler=_IMAGES),
    _product("DepthwiseConv2dNativeBackpropInput", _input_gradient, _input_gradient_flops),
    _product(
        "Conv3DBackpropInputV2",
        _by_image(2, channels=False, sizes_at=0),
        _input_gradient_flops,
        needs_compiler=_IMAGES,
    ),
    *(_operator(name, _pooled) for name in ("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")),
    *(_operator(name, _by_image(0, 1, 2)) for name in ("MaxPoolGrad", "MaxPool3DGrad")),
    *(_operator(name, _by_image(1, sizes_at=0)) for name in ("AvgPoolGrad", "AvgPool3DGrad")),
    _operator("MaxPoolV2", _by_image(0)),
    _operator("MaxPoolWithArgmax", _with_places),
    *(_operator(name, _by_image(0)) for name in _PER_CHANNEL.split()),
    *(_operator(name, _by_image(0, channels=False)) for name in _PER_IMAGE.split()),
)
