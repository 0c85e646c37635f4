"""Calls of operators that compute with all elements along some dims at once."""

import functools

import numpy as np
import tensorflow as tf

from .values import RAW, X, Y, definite, floats, integers

SAMPLES = {
    **{name: [functools.partial(getattr(RAW, name), logits=X)] for name in ("Softmax", "LogSoftmax")},
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
    "IRFFT": [lambda: RAW.IRFFT(input=tf.complex(X, X), fft_length=[6])],
    "RFFT2D": [lambda: RAW.RFFT2D(input=floats(5, 8, 4), fft_length=[8, 4])],
    "IRFFT2D": [lambda: RAW.IRFFT2D(input=tf.complex(Y, Y), fft_length=[4, 4])],
    "RGBToHSV": [lambda: RAW.RGBToHSV(images=floats(5, 2, 3))],
    "HSVToRGB": [lambda: RAW.HSVToRGB(images=floats(5, 2, 3))],
    "TopKV2": [lambda: RAW.TopKV2(input=X, k=2)],
    "NthElement": [lambda: RAW.NthElement(input=X, n=1)],
    "AdjustHue": [lambda: RAW.AdjustHue(images=floats(4, 5, 3), delta=0.1)],
    "AdjustSaturation": [lambda: RAW.AdjustSaturation(images=floats(4, 5, 3), scale=0.4)],
    "AdjustContrastv2": [lambda: RAW.AdjustContrastv2(images=floats(4, 5, 5, 3), contrast_factor=0.4)],
    "MatrixBandPart": [lambda: RAW.MatrixBandPart(input=Y, num_lower=1, num_upper=0)],
    "MatrixDiag": [lambda: RAW.MatrixDiag(diagonal=X)],
    "MatrixDiagPart": [lambda: RAW.MatrixDiagPart(input=floats(4, 3, 3))],
    "MatrixDiagV2": [
        lambda: RAW.MatrixDiagV2(diagonal=X, k=0, num_rows=-1, num_cols=-1, padding_value=0.0)
    ],
    "MatrixDiagV3": [
        lambda: RAW.MatrixDiagV3(diagonal=X, k=0, num_rows=-1, num_cols=-1, padding_value=0.0),
        lambda: RAW.MatrixDiagV3(diagonal=Y, k=[-2, 1], num_rows=3, num_cols=3, padding_value=0.0),
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
        name: [functools.partial(getattr(RAW, name), input=X, input_min=0.0, input_max=1.0, range_given=True)]
        for name in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
    },
    "MatrixDiagPartV2": [lambda: RAW.MatrixDiagPartV2(input=floats(4, 3, 3), k=0, padding_value=0.0)],
    **{name: [functools.partial(getattr(RAW, name), input=Y, dimension=1)] for name in ("ArgMax", "ArgMin")},
    **{name: [functools.partial(getattr(RAW, name), x=Y, axis=1)] for name in (
        "Cumsum", "Cumprod", "CumulativeLogsumexp",
    )},
    "SoftmaxCrossEntropyWithLogits": [
        lambda: RAW.SoftmaxCrossEntropyWithLogits(features=X, labels=floats(5, 4, seed=1))
    ],
    "SparseSoftmaxCrossEntropyWithLogits": [
        lambda: RAW.SparseSoftmaxCrossEntropyWithLogits(features=X, labels=integers(4, 5))
    ],
    "InTopK": [lambda: RAW.InTopK(predictions=X, targets=integers(4, 5), k=2)],
    "InTopKV2": [lambda: RAW.InTopKV2(predictions=X, targets=integers(4, 5), k=2)],
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
