"""Calls of operators that move, repeat or leave out elements, and that take or add to rows."""

import tensorflow as tf

from .values import RAW, X, Y, floats, integers

SAMPLES = {
    "Reshape": [
        lambda: RAW.Reshape(tensor=Y, shape=[24, 3]),
        lambda: RAW.Reshape(tensor=Y, shape=[6, 12]),
        lambda: RAW.Reshape(tensor=floats(24, 3), shape=[6, 2, 2, 3]),
        lambda: RAW.Reshape(tensor=floats(6, 4), shape=[3, 8]),
        lambda: RAW.Reshape(tensor=floats(5, 2, 3), shape=[5, 3, 2]),
        lambda: RAW.Reshape(tensor=floats(5, 1), shape=[1, 5, 1]),
    ],
    "ExpandDims": [lambda: RAW.ExpandDims(input=Y, axis=1), lambda: RAW.ExpandDims(input=X, axis=-1)],
    "Squeeze": [
        lambda: RAW.Squeeze(input=floats(5, 1, 3), axis=[1]), lambda: RAW.Squeeze(input=floats(1, 4, 1, 3)),
    ],
    "Transpose": [lambda: RAW.Transpose(x=Y, perm=[2, 0, 1]), lambda: RAW.Transpose(x=X, perm=[1, 0])],
    "ConjugateTranspose": [lambda: RAW.ConjugateTranspose(x=tf.complex(X, X), perm=[1, 0])],
    "ConcatV2": [
        lambda: RAW.ConcatV2(values=[X, floats(2, 4)], axis=0),
        lambda: RAW.ConcatV2(values=[Y, Y, Y], axis=-1),
        lambda: RAW.ConcatV2(values=[floats(1, 3), floats(5, 3), floats(2, 3)], axis=0),
    ],
    "Pack": [lambda: RAW.Pack(values=[X, X], axis=1), lambda: RAW.Pack(values=[X, X, X])],
    "Unpack": [lambda: RAW.Unpack(value=Y, num=4, axis=1)],
    "Split": [lambda: RAW.Split(axis=1, value=Y, num_split=2)],
    "SplitV": [lambda: RAW.SplitV(value=Y, size_splits=[1, 3], axis=1, num_split=2)],
    "Slice": [lambda: RAW.Slice(input=Y, begin=[1, 0, 1], size=[4, 3, 2])],
    "StridedSlice": [
        lambda: tf.constant(Y)[1:5, ::2],
        lambda: tf.constant(Y)[:, 1, None, ::-1],
        lambda: tf.constant(Y)[..., 0],
        lambda: tf.constant(Y)[-4:, ..., 1:],
        lambda: tf.constant(X)[::-2],
    ],
    "StridedSliceGrad": [
        lambda: RAW.StridedSliceGrad(
            shape=[6, 4, 3], begin=[0, 1], end=[0, 3], strides=[1, 1], dy=floats(6, 2, 3), begin_mask=1, end_mask=1
        ),
        lambda: RAW.StridedSliceGrad(
            shape=[6, 4, 3], begin=[0, 1, 0, 0], end=[6, 2, 0, 0], strides=[1, 1, 1, -1], dy=floats(6, 1, 3),
            begin_mask=8, end_mask=8, new_axis_mask=4, shrink_axis_mask=2,
        ),
        lambda: RAW.StridedSliceGrad(
            shape=[6, 4, 3], begin=[0, 0], end=[0, 1], strides=[1, 1], dy=floats(6, 4), ellipsis_mask=1,
            shrink_axis_mask=2,
        ),
        lambda: RAW.StridedSliceGrad(
            shape=[9, 4], begin=[2, -1], end=[-3, 5], strides=[1, 1], dy=floats(4, 1), new_axis_mask=0
        ),
    ],
    "Pad": [
        lambda: RAW.Pad(input=X, paddings=[[1, 2], [0, 0]]), lambda: RAW.Pad(input=X, paddings=[[0, 0], [2, 1]]),
    ],
    "PadV2": [lambda: RAW.PadV2(input=X, paddings=[[1, 2], [0, 1]], constant_values=7.0)],
    "MirrorPad": [lambda: RAW.MirrorPad(input=X, paddings=[[0, 0], [1, 2]], mode="REFLECT")],
    "Tile": [
        lambda: RAW.Tile(input=X, multiples=[2, 1]), lambda: RAW.Tile(input=floats(5, 1), multiples=[1, 3]),
        lambda: RAW.Tile(input=Y, multiples=[3, 1, 2]),
    ],
    "BroadcastTo": [
        lambda: RAW.BroadcastTo(input=floats(1, 3), shape=[5, 3]),
        lambda: RAW.BroadcastTo(input=floats(4, 1), shape=[2, 4, 3]),
    ],
    "Fill": [lambda: RAW.Fill(dims=[5, 3], value=2.0)],
    "ReverseV2": [lambda: RAW.ReverseV2(tensor=Y, axis=[0]), lambda: RAW.ReverseV2(tensor=Y, axis=[1, 2])],
    "Roll": [
        lambda: RAW.Roll(input=Y, shift=[1], axis=[1]), lambda: RAW.Roll(input=Y, shift=[-2, 9, 3], axis=[0, 0, -1]),
        lambda: RAW.Roll(input=X, shift=-1, axis=0),
    ],
    "ReverseSequence": [
        lambda: RAW.ReverseSequence(input=Y, seq_lengths=integers(4, 6), seq_dim=1, batch_dim=0)
    ],
    "GatherV2": [
        lambda: RAW.GatherV2(params=Y, indices=integers(6, 5), axis=0),
        lambda: RAW.GatherV2(params=Y, indices=integers(4, 2, 3), axis=1),
        lambda: RAW.GatherV2(params=Y, indices=integers(4, 6, 2), axis=1, batch_dims=1),
    ],
    "Gather": [lambda: RAW.Gather(params=X, indices=integers(5, 3, 2))],
    "GatherNd": [
        lambda: RAW.GatherNd(params=Y, indices=integers(4, 5, 2)), lambda: RAW.GatherNd(params=X, indices=[[0, 1]]),
    ],
    "OneHot": [
        lambda: RAW.OneHot(indices=integers(4, 5), depth=4, on_value=1.0, off_value=0.0),
        lambda: RAW.OneHot(indices=integers(4, 5, 2), depth=4, on_value=1.0, off_value=0.0, axis=1),
    ],
    "ScatterNd": [
        lambda: RAW.ScatterNd(indices=integers(4, 7, 1), updates=floats(7, 3), shape=[4, 3]),
        lambda: RAW.ScatterNd(indices=integers(3, 5, 2), updates=floats(5), shape=[3, 4]),
    ],
}  # fmt: skip
