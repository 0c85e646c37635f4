"""Calls of operators that compute: reductions, products, and what is not broadcast in the common way."""

import functools

import numpy as np
import tensorflow as tf

from .values import RAW, X, Y, floats

SAMPLES = {
    "AddN": [lambda: RAW.AddN(inputs=[X, X, X]), lambda: RAW.AddN(inputs=[Y])],
    "BiasAdd": [lambda: RAW.BiasAdd(value=X, bias=floats(4)), lambda: RAW.BiasAdd(value=Y, bias=floats(3))],
    "Select": [
        lambda: RAW.Select(condition=X > 0.5, x=X, y=-X),
        lambda: RAW.Select(condition=X[:, 0] > 0.5, x=X, y=-X),
    ],
    "SelectV2": [
        lambda: RAW.SelectV2(condition=X > 0.5, t=X, e=floats(4)),
        lambda: RAW.SelectV2(condition=X[:, :1] > 0.5, t=X, e=0.0),
    ],
    "EnsureShape": [lambda: RAW.EnsureShape(input=X, shape=[5, 4])],
    "PlaceholderWithDefault": [lambda: RAW.PlaceholderWithDefault(input=X, shape=[5, 4])],
    "L2Loss": [lambda: RAW.L2Loss(t=X), lambda: RAW.L2Loss(t=Y)],
    "BiasAddGrad": [lambda: RAW.BiasAddGrad(out_backprop=X), lambda: RAW.BiasAddGrad(out_backprop=Y)],
    "MatMul": [
        lambda: RAW.MatMul(a=X, b=floats(4, 7)),
        lambda: RAW.MatMul(a=X, b=floats(5, 3), transpose_a=True),
        lambda: RAW.MatMul(a=X, b=floats(3, 4), transpose_b=True),
    ],
    "BatchMatMulV2": [
        lambda: RAW.BatchMatMulV2(x=Y, y=floats(6, 3, 5)),
        lambda: RAW.BatchMatMulV2(x=Y, y=floats(3, 5)),
        lambda: RAW.BatchMatMulV2(x=Y, y=floats(1, 5, 3), adj_y=True),
    ],
    "BatchMatMul": [lambda: RAW.BatchMatMul(x=Y, y=floats(6, 3, 5))],
    "BatchMatMulV3": [lambda: RAW.BatchMatMulV3(x=Y, y=floats(6, 3, 5), Tout=tf.float32)],
    "Einsum": [
        lambda: RAW.Einsum(inputs=[Y, floats(4, 3, 2)], equation="btd,tdk->bkt"),
        lambda: RAW.Einsum(inputs=[Y, floats(3, 5)], equation="...d,dk->...k"),
        lambda: RAW.Einsum(inputs=[X, X], equation="bi,bj->ij"),
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
    "Bitcast": [lambda: RAW.Bitcast(input=X, type=tf.int32)],
    **{name: [functools.partial(getattr(RAW, name), input=Y, axis=axes) for axes in ([0], [1, 2], [-1])]
       for name in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm")},
    **{name: [functools.partial(getattr(RAW, name), input=Y > 0.3, axis=axes) for axes in ([0], [1, 2])]
       for name in ("All", "Any")},
}  # fmt: skip
SAMPLES["Sum"].append(lambda: RAW.Sum(input=Y, axis=[1], keep_dims=True))
