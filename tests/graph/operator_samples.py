"""Calls of operators on small random tensors, by op type, with which their descriptions are checked."""

import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from autodist.graph.operators import OPERATORS, Kind

RAW = tf.raw_ops


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


def integers(below, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def definite(*shape):
    """Matrices that have an inverse and a root."""
    half = floats(*shape)
    return half @ np.swapaxes(half, -1, -2) + 3 * np.eye(shape[-1], dtype=np.float32)


_PREFERRED = (tf.float32, tf.int32, tf.bool, tf.string, tf.complex64)
_SHAPES = (((5, 3), (5, 3), (5, 3)), ((5, 3), (3,), (1, 3)), ((2, 1, 4), (5, 1), ()))
_ATTRIBUTES = {
    "Cast": {"DstT": tf.int32},
    "Bucketize": {"boundaries": [0.3, 0.6]},
    "CheckNumerics": {"message": ""},
    "CheckNumericsV2": {"message": ""},
    "StringToHashBucketFast": {"num_buckets": 7},
    "StringToHashBucket": {"num_buckets": 7},
    "StringToHashBucketStrong": {"num_buckets": 7, "key": [1, 2]},
    "StaticRegexReplace": {"pattern": "a", "rewrite": "b"},
    "StaticRegexFullMatch": {"pattern": "a"},
    "Print": {},
}
_FEWER_SHAPES = {
    # Their inputs are of one shape, or broadcast in one way only.
    "RegexReplace": ((5,), (), ()),
    "RegexFullMatch": ((5,), (), ()),
    "ClipByValue": ((5, 3), (), ()),
    "FakeQuantWithMinMaxVars": ((5, 3), (), ()),
    "StringJoin": ((5,), (5,), (5,)),
}
_OF_ONE_SHAPE = """
    AddN IdentityN Betainc EluGrad LeakyReluGrad ReluGrad Relu6Grad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad InvGrad ReciprocalGrad ApproximateEqual
"""
WITHOUT = {
    "LookupTableFind": "needs the handle of a table, which runs in a session of its own",
    "LookupTableFindV2": "as LookupTableFind",
    "Copy": "is added by TensorFlow's debugger alone",
    "DebugIdentity": "is added by TensorFlow's debugger alone",
    "DebugIdentityV2": "is added by TensorFlow's debugger alone",
    "DisableCopyOnRead": "takes a variable's handle",
    "GuaranteeConst": "is taken out by TensorFlow before it runs",
    "ResourceGather": "takes a variable's handle; it is checked where it trains",
    "Print": "writes to the console",
}
"""What can't be called on constants, and why."""


def _dtype(argument, definition):
    if not argument.type_attr:
        return tf.as_dtype(argument.type)
    attr = next(attr for attr in definition.attr if attr.name == argument.type_attr)
    allowed = [tf.as_dtype(number) for number in attr.allowed_values.list.type]
    return next(dtype for dtype in _PREFERRED if not allowed or dtype in allowed)


def _values(dtype, shape, seed):
    if dtype.is_floating:
        return tf.constant(floats(*shape, seed=seed), dtype)
    if dtype == tf.bool:
        return tf.constant(integers(2, *shape, seed=seed) == 1)
    if dtype == tf.string:
        return tf.constant(integers(9, *shape, seed=seed).astype(str))
    if dtype.is_complex:
        return tf.complex(floats(*shape, seed=seed), floats(*shape, seed=seed + 9))
    return tf.constant(integers(5, *shape, seed=seed) + 1, dtype)


def _call_pointwise(op, shapes):
    definition = op_def_registry.get(op)
    given = dict(_ATTRIBUTES.get(op, {}))
    for k, argument in enumerate(definition.input_arg):
        if argument.number_attr or argument.type_list_attr:
            given[argument.name] = [
                _values(tf.string if op == "StringJoin" else tf.float32, shapes[0], s) for s in (1, 2)
            ]
            continue
        given[argument.name] = _values(_dtype(argument, definition), shapes[k % len(shapes)], k)
    return getattr(RAW, op)(**given)


def pointwise_samples():
    """Of each operator that computes element by element, in several shapes, broadcast ones too."""
    found = {}
    own = set(samples())
    for name, operator in OPERATORS.items():
        if operator.kind is not Kind.ELEMENTWISE or name in WITHOUT or name in own:
            continue
        if name in _FEWER_SHAPES:
            shapes = (_FEWER_SHAPES[name],)
        elif name in _OF_ONE_SHAPE.split():
            shapes = (((5, 3),) * 3, ((4,),) * 3)
        else:
            shapes = _SHAPES
        found[name] = [functools.partial(_call_pointwise, name, given) for given in shapes]
    return found


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


def _gradients(padding, strides, kernel=3):
    height, width = 9, 8
    out = (_out(height, kernel, padding, strides), _out(width, kernel, padding, strides))
    space = {"strides": [1, strides, strides, 1], "padding": padding}
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


def _pooling(op, padding, strides=2, side=2):
    dims = 3 if "3D" in op else 2
    shape = (3, *(7, 6, 5)[:dims], 4)
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


@functools.cache
def samples():
    """By op type, several calls of it; where sizes don't divide evenly too."""
    x, y = floats(5, 4), floats(6, 4, 3, seed=1)
    found = {
        "AddN": [lambda: RAW.AddN(inputs=[x, x, x]), lambda: RAW.AddN(inputs=[y])],
        "BiasAdd": [lambda: RAW.BiasAdd(value=x, bias=floats(4)), lambda: RAW.BiasAdd(value=y, bias=floats(3))],
        "Select": [
            lambda: RAW.Select(condition=x > 0.5, x=x, y=-x),
            lambda: RAW.Select(condition=x[:, 0] > 0.5, x=x, y=-x),
        ],
        "SelectV2": [
            lambda: RAW.SelectV2(condition=x > 0.5, t=x, e=floats(4)),
            lambda: RAW.SelectV2(condition=x[:, :1] > 0.5, t=x, e=0.0),
        ],
        "EnsureShape": [lambda: RAW.EnsureShape(input=x, shape=[5, 4])],
        "PlaceholderWithDefault": [lambda: RAW.PlaceholderWithDefault(input=x, shape=[5, 4])],
        "L2Loss": [lambda: RAW.L2Loss(t=x), lambda: RAW.L2Loss(t=y)],
        "BiasAddGrad": [lambda: RAW.BiasAddGrad(out_backprop=x), lambda: RAW.BiasAddGrad(out_backprop=y)],
        "MatMul": [
            lambda: RAW.MatMul(a=x, b=floats(4, 7)),
            lambda: RAW.MatMul(a=x, b=floats(5, 3), transpose_a=True),
            lambda: RAW.MatMul(a=x, b=floats(3, 4), transpose_b=True),
        ],
        "BatchMatMulV2": [
            lambda: RAW.BatchMatMulV2(x=y, y=floats(6, 3, 5)),
            lambda: RAW.BatchMatMulV2(x=y, y=floats(3, 5)),
            lambda: RAW.BatchMatMulV2(x=y, y=floats(1, 5, 3), adj_y=True),
        ],
        "BatchMatMul": [lambda: RAW.BatchMatMul(x=y, y=floats(6, 3, 5))],
        "BatchMatMulV3": [lambda: RAW.BatchMatMulV3(x=y, y=floats(6, 3, 5), Tout=tf.float32)],
        "Einsum": [
            lambda: RAW.Einsum(inputs=[y, floats(4, 3, 2)], equation="btd,tdk->bkt"),
            lambda: RAW.Einsum(inputs=[y, floats(3, 5)], equation="...d,dk->...k"),
            lambda: RAW.Einsum(inputs=[x, x], equation="bi,bj->ij"),
        ],
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
            name: [_gradients(padding, strides)[name] for padding, strides in (("SAME", 1), ("SAME", 2), ("VALID", 2))]
            for name in _gradients("SAME", 1)
        },
        **{
            name: [_pooling(name, "VALID"), _pooling(name, "SAME"), _pooling(name, "VALID", 1, 3)]
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
        "Reshape": [
            lambda: RAW.Reshape(tensor=y, shape=[24, 3]),
            lambda: RAW.Reshape(tensor=y, shape=[6, 12]),
            lambda: RAW.Reshape(tensor=floats(24, 3), shape=[6, 2, 2, 3]),
            lambda: RAW.Reshape(tensor=floats(6, 4), shape=[3, 8]),
            lambda: RAW.Reshape(tensor=floats(5, 2, 3), shape=[5, 3, 2]),
            lambda: RAW.Reshape(tensor=floats(5, 1), shape=[1, 5, 1]),
        ],
        "ExpandDims": [lambda: RAW.ExpandDims(input=y, axis=1), lambda: RAW.ExpandDims(input=x, axis=-1)],
        "Squeeze": [
            lambda: RAW.Squeeze(input=floats(5, 1, 3), axis=[1]), lambda: RAW.Squeeze(input=floats(1, 4, 1, 3)),
        ],
        "Transpose": [lambda: RAW.Transpose(x=y, perm=[2, 0, 1]), lambda: RAW.Transpose(x=x, perm=[1, 0])],
        "ConjugateTranspose": [lambda: RAW.ConjugateTranspose(x=tf.complex(x, x), perm=[1, 0])],
        "ConcatV2": [
            lambda: RAW.ConcatV2(values=[x, floats(2, 4)], axis=0),
            lambda: RAW.ConcatV2(values=[y, y, y], axis=-1),
        ],
        "Pack": [lambda: RAW.Pack(values=[x, x], axis=1), lambda: RAW.Pack(values=[x, x, x])],
        "Unpack": [lambda: RAW.Unpack(value=y, num=4, axis=1)],
        "Split": [lambda: RAW.Split(axis=1, value=y, num_split=2)],
        "SplitV": [lambda: RAW.SplitV(value=y, size_splits=[1, 3], axis=1, num_split=2)],
        "Slice": [lambda: RAW.Slice(input=y, begin=[1, 0, 1], size=[4, 3, 2])],
        "StridedSlice": [
            lambda: tf.constant(y)[1:5, ::2],
            lambda: tf.constant(y)[:, 1, None, ::-1],
            lambda: tf.constant(y)[..., 0],
            lambda: tf.constant(y)[-4:, ..., 1:],
            lambda: tf.constant(x)[::-2],
        ],
        "Pad": [
            lambda: RAW.Pad(input=x, paddings=[[1, 2], [0, 0]]), lambda: RAW.Pad(input=x, paddings=[[0, 0], [2, 1]]),
        ],
        "PadV2": [lambda: RAW.PadV2(input=x, paddings=[[1, 2], [0, 1]], constant_values=7.0)],
        "MirrorPad": [lambda: RAW.MirrorPad(input=x, paddings=[[0, 0], [1, 2]], mode="REFLECT")],
        "Tile": [
            lambda: RAW.Tile(input=x, multiples=[2, 1]), lambda: RAW.Tile(input=floats(5, 1), multiples=[1, 3]),
            lambda: RAW.Tile(input=y, multiples=[3, 1, 2]),
        ],
        "BroadcastTo": [
            lambda: RAW.BroadcastTo(input=floats(1, 3), shape=[5, 3]),
            lambda: RAW.BroadcastTo(input=floats(4, 1), shape=[2, 4, 3]),
        ],
        "Fill": [lambda: RAW.Fill(dims=[5, 3], value=2.0)],
        "ReverseV2": [lambda: RAW.ReverseV2(tensor=y, axis=[0]), lambda: RAW.ReverseV2(tensor=y, axis=[1, 2])],
        "Roll": [lambda: RAW.Roll(input=y, shift=[1], axis=[1])],
        "ReverseSequence": [
            lambda: RAW.ReverseSequence(input=y, seq_lengths=integers(4, 6), seq_dim=1, batch_dim=0)
        ],
        "SpaceToDepth": [lambda: RAW.SpaceToDepth(input=floats(3, 6, 4, 2), block_size=2)],
        "DepthToSpace": [lambda: RAW.DepthToSpace(input=floats(3, 3, 2, 8), block_size=2)],
        "GatherV2": [
            lambda: RAW.GatherV2(params=y, indices=integers(6, 5), axis=0),
            lambda: RAW.GatherV2(params=y, indices=integers(4, 2, 3), axis=1),
            lambda: RAW.GatherV2(params=y, indices=integers(4, 6, 2), axis=1, batch_dims=1),
        ],
        "Gather": [lambda: RAW.Gather(params=x, indices=integers(5, 3, 2))],
        "GatherNd": [
            lambda: RAW.GatherNd(params=y, indices=integers(4, 5, 2)), lambda: RAW.GatherNd(params=x, indices=[[0, 1]]),
        ],
        "OneHot": [
            lambda: RAW.OneHot(indices=integers(4, 5), depth=4, on_value=1.0, off_value=0.0),
            lambda: RAW.OneHot(indices=integers(4, 5, 2), depth=4, on_value=1.0, off_value=0.0, axis=1),
        ],
        "CropAndResize": [
            lambda: RAW.CropAndResize(
                image=floats(2, 6, 6, 3), boxes=np.sort(floats(5, 4), 1), box_ind=integers(2, 5), crop_size=[3, 3]
            )
        ],
        "ScatterNd": [
            lambda: RAW.ScatterNd(indices=integers(4, 7, 1), updates=floats(7, 3), shape=[4, 3]),
            lambda: RAW.ScatterNd(indices=integers(3, 5, 2), updates=floats(5), shape=[3, 4]),
        ],
        **{
            f"UnsortedSegment{kind}": [
                functools.partial(
                    getattr(RAW, f"UnsortedSegment{kind}"),
                    data=floats(7, 3), segment_ids=np.array([0, 1, 2, 3, 0, 1, 2], np.int32), num_segments=4,
                )
            ]
            for kind in ("Sum", "Max", "Min", "Prod")
        },
        **{name: [functools.partial(getattr(RAW, name), logits=x)] for name in ("Softmax", "LogSoftmax")},
        **{name: [functools.partial(getattr(RAW, name), input=definite(4, 3, 3))] for name in (
            "Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant",
            "MatrixSquareRoot", "Qr", "Svd", "SelfAdjointEigV2", "Lu",
        )},
        "Eig": [lambda: RAW.Eig(input=definite(4, 3, 3), Tout=tf.complex64)],
        "MatrixLogarithm": [lambda: RAW.MatrixLogarithm(input=definite(4, 3, 3).astype(np.complex64))],
        "CholeskyGrad": [lambda: RAW.CholeskyGrad(l=np.linalg.cholesky(definite(4, 3, 3)), grad=floats(4, 3, 3))],
        **{name: [functools.partial(getattr(RAW, name), matrix=definite(4, 3, 3), rhs=floats(4, 3, 2))] for name in (
            "MatrixSolve", "MatrixTriangularSolve",
        )},
        "MatrixSolveLs": [
            lambda: RAW.MatrixSolveLs(matrix=definite(4, 3, 3), rhs=floats(4, 3, 2), l2_regularizer=np.float64(0.1))
        ],
        "TridiagonalSolve": [lambda: RAW.TridiagonalSolve(diagonals=floats(4, 3, 5) + 1, rhs=floats(4, 5, 2))],
        "TridiagonalMatMul": [
            lambda: RAW.TridiagonalMatMul(
                superdiag=floats(4, 1, 5), maindiag=floats(4, 1, 5), subdiag=floats(4, 1, 5), rhs=floats(4, 5, 2)
            )
        ],
        **{name: [functools.partial(getattr(RAW, name), input=floats(5, 4, 3, 2).astype(np.complex64))] for name in (
            "FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D",
        )},
        "RFFT": [lambda: RAW.RFFT(input=floats(5, 8), fft_length=[8])],
        "IRFFT": [lambda: RAW.IRFFT(input=tf.complex(x, x), fft_length=[6])],
        "RFFT2D": [lambda: RAW.RFFT2D(input=floats(5, 8, 4), fft_length=[8, 4])],
        "IRFFT2D": [lambda: RAW.IRFFT2D(input=tf.complex(y, y), fft_length=[4, 4])],
        "RGBToHSV": [lambda: RAW.RGBToHSV(images=floats(5, 2, 3))],
        "HSVToRGB": [lambda: RAW.HSVToRGB(images=floats(5, 2, 3))],
        "TopKV2": [lambda: RAW.TopKV2(input=x, k=2)],
        "NthElement": [lambda: RAW.NthElement(input=x, n=1)],
        "AdjustHue": [lambda: RAW.AdjustHue(images=floats(4, 5, 3), delta=0.1)],
        "AdjustSaturation": [lambda: RAW.AdjustSaturation(images=floats(4, 5, 3), scale=0.4)],
        "AdjustContrastv2": [lambda: RAW.AdjustContrastv2(images=floats(4, 5, 5, 3), contrast_factor=0.4)],
        "MatrixBandPart": [lambda: RAW.MatrixBandPart(input=y, num_lower=1, num_upper=0)],
        "MatrixDiag": [lambda: RAW.MatrixDiag(diagonal=x)],
        "MatrixDiagPart": [lambda: RAW.MatrixDiagPart(input=floats(4, 3, 3))],
        "MatrixDiagV2": [
            lambda: RAW.MatrixDiagV2(diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=0.0)
        ],
        "MatrixDiagV3": [
            lambda: RAW.MatrixDiagV3(diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=0.0),
            lambda: RAW.MatrixDiagV3(diagonal=y, k=[-2, 1], num_rows=3, num_cols=3, padding_value=0.0),
        ],
        "MatrixDiagPartV3": [
            lambda: RAW.MatrixDiagPartV3(input=floats(4, 3, 3), k=0, padding_value=0.0),
            lambda: RAW.MatrixDiagPartV3(input=floats(4, 3, 3), k=[0, 1], padding_value=0.0),
        ],
        "MatrixSetDiag": [lambda: RAW.MatrixSetDiag(input=floats(4, 3, 3), diagonal=floats(4, 3))],
        **{
            name: [functools.partial(getattr(RAW, name), input=floats(4, 3, 3), diagonal=floats(4, 3), k=0)]
            for name in ("MatrixSetDiagV2", "MatrixSetDiagV3")
        },
        **{
            name: [functools.partial(getattr(RAW, name), input=x, input_min=0.0, input_max=1.0, range_given=True)]
            for name in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
        },
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
        "Bitcast": [lambda: RAW.Bitcast(input=x, type=tf.int32)],
        "MatrixDiagPartV2": [lambda: RAW.MatrixDiagPartV2(input=floats(4, 3, 3), k=0, padding_value=0.0)],
        **{name: [functools.partial(getattr(RAW, name), input=y, dimension=1)] for name in ("ArgMax", "ArgMin")},
        **{name: [functools.partial(getattr(RAW, name), x=y, axis=1)] for name in (
            "Cumsum", "Cumprod", "CumulativeLogsumexp",
        )},
        "SoftmaxCrossEntropyWithLogits": [
            lambda: RAW.SoftmaxCrossEntropyWithLogits(features=x, labels=floats(5, 4, seed=1))
        ],
        "SparseSoftmaxCrossEntropyWithLogits": [
            lambda: RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=integers(4, 5))
        ],
        "InTopK": [lambda: RAW.InTopK(predictions=x, targets=integers(4, 5), k=2)],
        "InTopKV2": [lambda: RAW.InTopKV2(predictions=x, targets=integers(4, 5), k=2)],
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
        **{name: [functools.partial(getattr(RAW, name), input=y, axis=axes) for axes in ([0], [1, 2], [-1])]
           for name in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm")},
        **{name: [functools.partial(getattr(RAW, name), input=y > 0.3, axis=axes) for axes in ([0], [1, 2])]
           for name in ("All", "Any")},
        **{
            name: [
                functools.partial(
                    getattr(RAW, name), x=floats(3, 4, 4, 5), scale=floats(5), offset=floats(5),
                    mean=np.zeros(0, np.float32), variance=np.zeros(0, np.float32),
                )
            ]
            for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
        },
    }  # fmt: skip
    found["Sum"].append(lambda: RAW.Sum(input=y, axis=[1], keep_dims=True))
    return found
