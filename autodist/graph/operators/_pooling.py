"""Pooling with its gradients, and what else is done to each image by itself."""

from __future__ import annotations

from dataclasses import replace

from autodist.graph.operators._base import Affine, Describe, Expression, Lengths, Operand, Operator, Signature
from autodist.graph.operators._images import SPACE, WINDOW, Images, by_image, fixed_indices, known_shapes, named_sizes
from autodist.graph.operators._kinds import Kind, Reducer


def _pooled(signature: Signature) -> Expression | None:
    """Maxima and means of windows; means of windows with padding count what is inside of the image."""
    known = known_shapes(signature.inputs[0], signature.outputs[0])
    if known is None:
        return None
    image, result = known
    images, dims = Images.of(signature, len(image)), len(image) - 2
    window = images.window(signature)
    batch, space, channels = images.sizes(image)
    _, out, _ = images.sizes(result)
    pads: list[int | None] = [0 if images.fits(d, space, out, window) else None for d in range(dims)]
    places = images.moved(pads)
    sizes = named_sizes(batch, out, window, c=channels)
    made = images.access("n", [Affine.of(SPACE[d]) for d in range(dims)], Affine.of("c"))
    reducer = Reducer.MAX if signature.op.startswith("Max") else Reducer.MEAN
    summed = dict.fromkeys(WINDOW[:dims], reducer)
    return Expression(
        sizes, (made,), (images.access("n", places, Affine.of("c")),), summed, fixed_indices(places, dims)
    )


def _pooled_back(*taken: int, image: int, sizes_at: int | None = None) -> Describe:
    """Gradients of pooling, also along space where windows lie side by side: then each place has one window.

    Args:
        taken: The inputs that have a place for each window.
        image: The input that has the shape of the result.
        sizes_at: The input that is the shape of the result, if none has it.
    """

    def describe(signature: Signature) -> Expression | None:
        shape, windows = signature.outputs[0], signature.inputs[taken[0]]
        known = known_shapes(shape, windows)
        alone = (image, *taken) if sizes_at is None else taken
        if known is None or shape is None:
            return None
        images, dims = Images.of(signature, len(shape)), len(shape) - 2
        window = images.window(signature)
        batch, space, channels = images.sizes(known[0])
        _, out, _ = images.sizes(known[1])
        apart = [images.strides[d] == window[d] and space[d] == (out[d] or 0) * window[d] for d in range(dims)]
        if not all(apart):
            return by_image(*alone, sizes_at=sizes_at)(signature)
        sizes = named_sizes(batch, out, window, c=channels)
        places = images.moved([0] * dims)
        made = images.access("n", places, Affine.of("c"))
        given = images.access("n", [Affine.of(name) for name in SPACE[:dims]], Affine.of("c"))
        inputs: list[Operand] = [given if k in taken else made for k in range(len(signature.inputs))]
        if sizes_at is not None:
            inputs[sizes_at] = Lengths(tuple(place for place in made.dims if place is not None))
        return Expression(sizes, (made,), tuple(inputs), {}, frozenset(WINDOW[:dims]))

    return describe


def _with_places(signature: Signature) -> Expression | None:
    """``MaxPoolWithArgmax``: the places are counted in each image, or in all of them."""
    found = by_image(0, channels=False)(signature)
    if found is None or signature.flag("include_batch_in_index"):
        return None
    return replace(found, outputs=found.outputs * 2)


def _operator(name: str, describe: Describe) -> Operator:
    return Operator(name, Kind.CONVOLUTION, describe, needs_rows=True)


_PER_IMAGE = "LRN Dilation2D ExtractImagePatches ExtractVolumePatches"
_PER_CHANNEL = "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate"

OPERATORS = (
    *(_operator(name, _pooled) for name in ("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")),
    *(_operator(name, _pooled_back(1, 2, image=0)) for name in ("MaxPoolGrad", "MaxPool3DGrad")),
    *(_operator(name, _pooled_back(1, image=0, sizes_at=0)) for name in ("AvgPoolGrad", "AvgPool3DGrad")),
    _operator("MaxPoolV2", by_image(0)),
    _operator("MaxPoolWithArgmax", _with_places),
    *(_operator(name, by_image(0)) for name in _PER_CHANNEL.split()),
    *(_operator(name, by_image(0, channels=False)) for name in _PER_IMAGE.split()),
)
