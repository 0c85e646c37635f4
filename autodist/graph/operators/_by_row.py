"""Operators that compute with all elements along some dims at once, alike at each place along the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Describe,
    Elements,
    Expression,
    Operand,
    Operator,
    Signature,
    Size,
)
from autodist.graph.operators._elementwise import pointwise
from autodist.graph.operators._kinds import Kind
from autodist.graph.operators._made_of import arg_max, cross_entropy, log_softmax, softmax, sparse_cross_entropy


def _last_dims(count: int, *given: int) -> Describe:
    """Describe an operator that computes with the last dims as a whole: those of these inputs, or of all."""

    def describe(signature: Signature) -> Expression | None:
        positions = given or tuple(range(len(signature.inputs)))
        first = signature.inputs[positions[0]]
        if first is None or len(first) < count:
            return None
        leading = [f"d{d}" for d in range(len(first) - count)]
        sizes: dict[str, Size] = dict(zip(leading, first, strict=False))
        made = []
        for k, shape in enumerate(signature.outputs):
            if shape is None:
                return None
            own = [f"o{k}{d}" for d in range(len(leading), len(shape))]
            sizes |= dict(zip(own, shape[len(leading) :], strict=True))
            made.append(Access.by(*leading, *own))
        inputs: list[Operand] = []
        for k, shape in enumerate(signature.inputs):
            rank = 0 if shape is None else len(shape)
            inputs.append(Access.by(*leading, *(None,) * (rank - len(leading))) if k in positions else WHOLE)
        joined = frozenset(name for name in sizes if name not in leading)
        return Expression(sizes, tuple(made), tuple(inputs), {}, joined)

    return describe


def _along(signature: Signature) -> Expression | None:
    """Along the dim that the second input names; the result has it, or lacks it."""
    shape, axes, result = signature.inputs[0], signature.numbers(1), signature.outputs[0]
    if shape is None or axes is None or result is None:
        return None
    names, axis = [f"d{d}" for d in range(len(shape))], axes[0] % len(shape)
    kept = [name for d, name in enumerate(names) if d != axis]
    made = Access.by(*names) if len(result) == len(shape) else Access.by(*kept)
    taken = Access.by(*(None if d == axis else name for d, name in enumerate(names)))
    sizes: dict[str, Size] = dict(zip(names, shape, strict=True))
    return Expression(sizes, (made,), (taken, WHOLE), {}, frozenset({names[axis]}))


def _rows(*given: int) -> Describe:
    """The first dim is the rows' own; these inputs have a row for each."""

    def describe(signature: Signature) -> Expression | None:
        shapes = [signature.inputs[k] for k in given]
        if any(shape is None for shape in (*shapes, *signature.outputs)):
            return None
        sizes: dict[str, Size] = {"b": next((s[0] for s in shapes if s and s[0] is not None), None)}
        made = []
        for k, shape in enumerate(signature.outputs):
            own = {f"o{k}{d}": size for d, size in enumerate(shape or ()) if d}
            sizes |= own
            made.append(Access.by("b", *own))
        inputs: list[Operand] = [
            Access.by("b", *(None,) * (len(shape or ()) - 1)) if k in given else WHOLE
            for k, shape in enumerate(signature.inputs)
        ]
        joined = frozenset(name for name in sizes if name != "b")
        return Expression(sizes, tuple(made), tuple(inputs), {}, joined)

    return describe


def _normalized(signature: Signature) -> Expression | None:
    """``FusedBatchNorm``: channels by themselves; in training the statistics are of all images."""
    shape = signature.inputs[0]
    if shape is None or signature.text("data_format") not in ("", "NHWC", "NDHWC"):
        return None
    names = [f"d{d}" for d in range(len(shape))]
    channel = Access.by(names[-1])
    sizes: dict[str, Size] = dict(zip(names, shape, strict=True))
    made = (Access.by(*names), *(channel,) * 4, None)[: len(signature.outputs)]
    inputs = (Access.by(*names), *(channel,) * (len(signature.inputs) - 1))
    return Expression(sizes, made, inputs, {}, frozenset(names[:-1]))


def _diagonals(signature: Signature) -> Expression | None:
    """``MatrixDiagV3``: of one diagonal each, or of a band of them."""
    band = signature.numbers(1)
    return None if band is None else _last_dims(2 if len(set(band)) > 1 else 1, 0)(signature)


def _quantized(signature: Signature) -> Expression | None:
    """Element by element if the range is given; else it is that of all elements."""
    found = pointwise(signature)
    if found is None or signature.number("axis", -1) != -1:
        return None
    return found if signature.flag("range_given") else replace(found, joined=frozenset(found.sizes))


def _of_matrices(node: Any, inputs: list[str], sizes: Elements) -> float:
    """Two operations for each element of a matrix and each of its columns."""
    return 2.0 * sizes.of(inputs[0]) * (sizes.shape(inputs[0]) or (1,))[-1]


_MATRICES = """
    Cholesky CholeskyGrad MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixSolve
    MatrixTriangularSolve Qr Svd SelfAdjointEigV2 Eig MatrixLogarithm
    MatrixSquareRoot Lu FFT2D IFFT2D TridiagonalSolve TridiagonalMatMul
"""
_ONE = "FFT IFFT RGBToHSV HSVToRGB"

OPERATORS = (
    *(Operator(name, Kind.BY_ROW, _last_dims(1)) for name in _ONE.split()),
    Operator("Softmax", Kind.BY_ROW, _last_dims(1), made_of=softmax),
    Operator("LogSoftmax", Kind.BY_ROW, _last_dims(1), made_of=log_softmax),
    *(Operator(name, Kind.BY_ROW, _last_dims(2), flops=_of_matrices) for name in _MATRICES.split()),
    *(Operator(name, Kind.BY_ROW, _last_dims(1, 0)) for name in ("NthElement", "RFFT", "IRFFT")),
    Operator("TopKV2", Kind.BY_ROW, _last_dims(1, 0), picks=True),
    *(Operator(name, Kind.BY_ROW, _last_dims(1, 0)) for name in ("AdjustHue", "AdjustSaturation")),
    *(Operator(name, Kind.BY_ROW, _last_dims(2, 0)) for name in ("MatrixBandPart", "RFFT2D", "IRFFT2D")),
    Operator("AdjustContrastv2", Kind.BY_ROW, _last_dims(3, 0)),
    Operator("MatrixSolveLs", Kind.BY_ROW, _last_dims(2, 0, 1)),
    *(Operator(name, Kind.BY_ROW, _last_dims(3)) for name in ("FFT3D", "IFFT3D")),
    *(Operator(name, Kind.BY_ROW, _last_dims(1, 0)) for name in ("MatrixDiag", "MatrixDiagV2")),
    *(Operator(name, Kind.BY_ROW, _last_dims(2, 0)) for name in ("MatrixDiagPart", "MatrixDiagPartV2")),
    Operator("MatrixDiagV3", Kind.BY_ROW, _diagonals),
    Operator("MatrixDiagPartV3", Kind.BY_ROW, _last_dims(2, 0)),
    *(Operator(f"MatrixSetDiag{version}", Kind.BY_ROW, _last_dims(2, 0, 1)) for version in ("", "V2", "V3")),
    *(Operator(name, Kind.BY_ROW, _quantized) for name in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")),
    Operator("QuantizeAndDequantizeV4Grad", Kind.BY_ROW, is_aligned=True),
    *(Operator(name, Kind.BY_ROW, _rows(0, 2)) for name in ("ExtractGlimpse", "ExtractGlimpseV2")),
    *(Operator(name, Kind.BY_ROW, _rows(0, 1)) for name in ("DrawBoundingBoxes", "DrawBoundingBoxesV2")),
    Operator("CombinedNonMaxSuppression", Kind.BY_ROW, _rows(0, 1)),
    *(Operator(name, Kind.BY_ROW, _along) for name in ("ArgMin", "Cumsum", "Cumprod", "CumulativeLogsumexp")),
    Operator("ArgMax", Kind.BY_ROW, _along, made_of=arg_max),
    Operator("SoftmaxCrossEntropyWithLogits", Kind.BY_ROW, _rows(0, 1), made_of=cross_entropy),
    Operator("SparseSoftmaxCrossEntropyWithLogits", Kind.BY_ROW, _rows(0, 1), made_of=sparse_cross_entropy),
    Operator("InTopK", Kind.BY_ROW, _rows(0, 1)),
    Operator("InTopKV2", Kind.BY_ROW, _rows(0, 1)),
    Operator("ImageProjectiveTransformV2", Kind.BY_ROW, _rows(0, 1)),
    Operator("ImageProjectiveTransformV3", Kind.BY_ROW, _rows(0, 1)),
    *(
        Operator(name, Kind.BY_ROW, _normalized, gives_statistics=True)
        for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    ),
)  # fmt: skip
