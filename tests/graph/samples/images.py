"""Calls of operators on images: convolutions, pooling and their gradients, in several strides and paddings."""

import functools

import numpy as np

from .values import RAW, floats, integers


def _convolution(padding, strides, dilations=1, size=9, kernel=3, explicit=None):
    return functools.partial(
        RAW.Conv2D,
        input=floats(3, size, size - 1, 4),
        filter=floats(kernel, kernel, 4, 5, seed=1),
        strides=[1, strides, strides, 1],
        padding=padding,
        dilations=[1, dilations, dilations, 1],
        **({} if explicit is None else {"explicit_paddings": explicit}),
    )


def _out(size, kernel, padding, strides):
    return -(-size // strides) if padding == "SAME" else (size - kernel) // strides + 1


def _gradients(padding, strides, kernel=3, explicit=None):
    height, width = 9, 8
    space = {"strides": [1, strides, strides, 1], "padding": padding}
    out = (_out(height, kernel, padding, strides), _out(width, kernel, padding, strides))
    if explicit is not None:
        space["explicit_paddings"], out = (
            explicit,
            tuple(9 + sum(explicit[k : k + 2]) - kernel - d + 1 for d, k in ((0, 2), (1, 4))),
        )
    images, upstream = floats(3, height, width, 4), floats(3, *out, 5, seed=2)
    filters, deep = floats(kernel, kernel, 4, 5, seed=1), floats(kernel, kernel, 4, 2, seed=1)
    apart = floats(3, *out, 8, seed=2)
    return {
        "Conv2DBackpropFilter": functools.partial(
            RAW.Conv2DBackpropFilter, input=images, filter_sizes=filters.shape, out_backprop=upstream, **space
        ),
        "Conv2DBackpropInput": functools.partial(
            RAW.Conv2DBackpropInput, input_sizes=images.shape, filter=filters, out_backprop=upstream, **space
        ),
        "DepthwiseConv2dNativeBackpropFilter": functools.partial(
            RAW.DepthwiseConv2dNativeBackpropFilter,
            input=images, filter_sizes=deep.shape, out_backprop=apart, **space,
        ),
        "DepthwiseConv2dNativeBackpropInput": functools.partial(
            RAW.DepthwiseConv2dNativeBackpropInput,
            input_sizes=images.shape, filter=deep, out_backprop=apart, **space,
        ),
        "DepthwiseConv2dNative": functools.partial(RAW.DepthwiseConv2dNative, input=images, filter=deep, **space),
    }  # fmt: skip


def _pooling(op, padding, strides=2, side=2, sizes=(7, 6, 5)):
    dims = 3 if "3D" in op else 2
    shape = (3, *sizes[:dims], 4)
    window = {"ksize": [1, *(side,) * dims, 1], "strides": [1, *(strides,) * dims, 1], "padding": padding}
    forward = op.removesuffix("Grad")
    images = floats(*shape)
    if not op.endswith("Grad"):
        return functools.partial(getattr(RAW, op), **{"value" if op == "AvgPool" else "input": images}, **window)

    def call():
        taken = {"value" if forward == "AvgPool" else "input": images}
        result = getattr(RAW, forward)(**taken, **window)
        if forward.startswith("Avg"):
            return getattr(RAW, op)(orig_input_shape=shape, grad=result, **window)
        return getattr(RAW, op)(orig_input=images, orig_output=result, grad=result, **window)

    return call


SAMPLES = {
    "Conv2D": [
        _convolution("SAME", 1), _convolution("SAME", 2), _convolution("VALID", 2), _convolution("SAME", 1, 2),
        _convolution("VALID", 1), _convolution("SAME", 3, kernel=2),
        _convolution("EXPLICIT", 1, explicit=[0, 0, 2, 1, 1, 0, 0, 0]),
    ],
    "Conv3D": [
        lambda: RAW.Conv3D(
            input=floats(3, 5, 4, 4, 2), filter=floats(2, 2, 2, 2, 3), strides=[1] * 5, padding="SAME"
        )
    ],
    **{
        name: [
            *(_gradients(padding, strides)[name] for padding, strides in (("SAME", 1), ("SAME", 2), ("VALID", 2))),
            _gradients("VALID", 1)[name], _gradients("EXPLICIT", 1, explicit=[0, 0, 2, 1, 0, 1, 0, 0])[name],
        ]
        for name in _gradients("SAME", 1)
    },
    **{
        name: [
            _pooling(name, "VALID"), _pooling(name, "SAME"), _pooling(name, "VALID", 1, 3),
            _pooling(name, "SAME", sizes=(8, 4, 6)),
        ]
        for name in (
            "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolGrad", "AvgPoolGrad", "MaxPool3DGrad",
            "AvgPool3DGrad",
        )
    },
    "Dilation2D": [
        lambda: RAW.Dilation2D(
            input=floats(3, 6, 6, 4), filter=floats(2, 2, 4), strides=[1] * 4, rates=[1] * 4, padding="SAME"
        )
    ],
    "LRN": [lambda: RAW.LRN(input=floats(3, 4, 4, 6))],
    "ExtractImagePatches": [
        lambda: RAW.ExtractImagePatches(
            images=floats(3, 6, 6, 2), ksizes=[1, 2, 2, 1], strides=[1] * 4, rates=[1] * 4, padding="SAME"
        )
    ],
    "ExtractVolumePatches": [
        lambda: RAW.ExtractVolumePatches(
            input=floats(3, 4, 4, 4, 2), ksizes=[1, 2, 2, 2, 1], strides=[1] * 5, padding="SAME"
        )
    ],
    **{
        name: [functools.partial(getattr(RAW, name), images=floats(3, 4, 5, 2), size=[7, 6])]
        for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea")
    },
    "ScaleAndTranslate": [
        lambda: RAW.ScaleAndTranslate(
            images=floats(3, 4, 5, 2), size=[7, 6], scale=[1.5, 1.2], translation=[0.1, 0.2]
        )
    ],
    "SpaceToDepth": [lambda: RAW.SpaceToDepth(input=floats(3, 6, 4, 2), block_size=2)],
    "DepthToSpace": [lambda: RAW.DepthToSpace(input=floats(3, 3, 2, 8), block_size=2)],
    "CropAndResize": [
        lambda: RAW.CropAndResize(
            image=floats(2, 6, 6, 3), boxes=np.sort(floats(5, 4), 1), box_ind=integers(2, 5), crop_size=[3, 3]
        )
    ],
    **{
        name: [
            functools.partial(
                getattr(RAW, name), input=floats(3, 6, 6, 2), size=[3, 3], offsets=floats(3, 2), noise="zero",
                uniform_noise=False,
            )
        ]
        for name in ("ExtractGlimpse", "ExtractGlimpseV2")
    },
    "DrawBoundingBoxes": [
        lambda: RAW.DrawBoundingBoxes(images=floats(3, 6, 6, 3), boxes=np.sort(floats(3, 2, 4), 2))
    ],
    "DrawBoundingBoxesV2": [
        lambda: RAW.DrawBoundingBoxesV2(
            images=floats(3, 6, 6, 3), boxes=np.sort(floats(3, 2, 4), 2), colors=floats(2, 3)
        )
    ],
    "CombinedNonMaxSuppression": [
        lambda: RAW.CombinedNonMaxSuppression(
            boxes=np.sort(floats(3, 5, 1, 4), 3), scores=floats(3, 5, 2), max_output_size_per_class=2,
            max_total_size=3, iou_threshold=0.5, score_threshold=0.1,
        )
    ],
    "MaxPoolV2": [
        lambda: RAW.MaxPoolV2(input=floats(3, 6, 6, 4), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    ],
    "MaxPoolWithArgmax": [
        lambda: RAW.MaxPoolWithArgmax(
            input=floats(3, 6, 6, 4), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"
        )
    ],
    "Conv3DBackpropInputV2": [
        lambda: RAW.Conv3DBackpropInputV2(
            input_sizes=[3, 5, 4, 4, 2], filter=floats(2, 2, 2, 2, 3), out_backprop=floats(3, 5, 4, 4, 3),
            strides=[1] * 5, padding="SAME",
        )
    ],
    "ImageProjectiveTransformV2": [
        lambda: RAW.ImageProjectiveTransformV2(
            images=floats(3, 5, 5, 2), transforms=np.tile(np.float32([[1, 0, 1, 0, 1, 0, 0, 0]]), (3, 1)),
            output_shape=[5, 5], interpolation="BILINEAR",
        )
    ],
    "ImageProjectiveTransformV3": [
        lambda: RAW.ImageProjectiveTransformV3(
            images=floats(3, 5, 5, 2), transforms=np.tile(np.float32([[1, 0, 1, 0, 1, 0, 0, 0]]), (3, 1)),
            output_shape=[5, 5], fill_value=0.0, interpolation="BILINEAR",
        )
    ],
}  # fmt: skip
