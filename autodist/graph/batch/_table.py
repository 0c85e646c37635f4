"""The table: what each operator does with the batch. One that isn't here is not known to keep examples apart."""

from __future__ import annotations

from collections.abc import Iterable

from autodist.graph.batch import _computing as computing
from autodist.graph.batch import _lists as lists
from autodist.graph.batch import _moving as moving
from autodist.graph.batch._rows import Rule

__all__ = ["CREATIONS", "ELEMENTWISE", "ENDS", "PRODUCTS", "RULES", "SHAPE_OPS"]


def _names(text: str) -> list[str]:
    return text.split()


SHAPE_OPS = frozenset(
    {"Shape", "ShapeN", "Size", "Rank", "TensorListLength", "TensorListElementShape", "BroadcastGradientArgs"}
)
"""What asks for sizes, whatever the values are."""

ENDS = frozenset(_names("StopGradient ZerosLike OnesLike Sign Floor Ceil Round Rint FloorDiv TruncateDiv"))
"""What no gradient flows through, although it gives floats, unless the program defines one."""

ELEMENTWISE = frozenset(
    _names("""
    Abs Acos Acosh AddN ApproximateEqual Asin Asinh Atan Atan2 Atanh Betainc BitwiseAnd BitwiseOr BitwiseXor Bitcast
    Bucketize Ceil CheckNumerics CheckNumericsV2 ClipByValue Complex ComplexAbs Conj Cos Cosh DebugIdentityV2 Digamma
    Div
    DivNoNan Elu EluGrad Equal Erf Erfc Erfinv Exp Expm1 FakeQuantWithMinMaxArgs Floor Greater GreaterEqual Igamma
    Igammac Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeftShift Less LessEqual Lgamma Log Log1p LogicalAnd
    LogicalNot LogicalOr Maximum Minimum Mod MulNoNan Ndtri Neg NextAfter NotEqual OnesLike Polygamma Pow Real RealDiv
    Reciprocal Relu Relu6 ReluGrad RightShift Rint Round Rsqrt RsqrtGrad Selu SeluGrad Sigmoid
    SigmoidGrad Sign Sin Sinh Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square SquaredDifference
    Sub Tan Tanh TanhGrad TruncateDiv TruncateMod Xdivy Xlog1py Xlogy ZerosLike Zeta BesselI0 BesselI0e BesselI1
    BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Dawsn Expint FresnelCos
    FresnelSin Spence LookupTableFind LookupTableFindV2 StringJoin StringLower StringUpper StringStrip StringLength
    StringToHashBucketFast
    StringToHashBucket StringToHashBucketStrong StringToNumber AsString RegexReplace StaticRegexReplace
    RegexFullMatch StaticRegexFullMatch Angle
    StatelessRandomBinomial StatelessRandomPoisson StatelessRandomGammaV2 StatelessRandomGammaV3 RandomPoissonV2
    AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation RGBToHSV HSVToRGB QuantizeAndDequantizeV4
    QuantizeAndDequantizeV4Grad FakeQuantWithMinMaxVars
    """)
)
"""Operators whose results are as large as what they are given is broadcast to."""

PRODUCTS = frozenset({"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"})
_KEPT = _names("""
    Identity IdentityN Cast StopGradient PreventGradient Snapshot EnsureShape PlaceholderWithDefault
    OptimizationBarrier OptionalFromValue OptionalGetValue Copy DebugIdentity GuaranteeConst DisableCopyOnRead Print
    """)
_REDUCTIONS = _names("Sum Mean Max Min Prod All Any EuclideanNorm")
CREATIONS = frozenset(
    _names("""
    Fill RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt ParameterizedTruncatedNormal
    StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt
    StatelessRandomUniformFullInt StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2
    StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2 StatelessParameterizedTruncatedNormal
    StatefulUniform StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniformInt StatefulUniformFullInt
    RandomGamma Empty BroadcastTo Tile
    """)
)
"""What is made for each example: of one value, or drawn."""
_IMAGES = _names("""
    Conv2D Conv3D Conv DepthwiseConv2dNative Conv2DBackpropInput Conv3DBackpropInputV2
    DepthwiseConv2dNativeBackpropInput Dilation2D MaxPool MaxPoolV2 AvgPool MaxPool3D AvgPool3D LRN
    FractionalMaxPool FractionalAvgPool MaxPoolWithArgmax
    ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea SpaceToDepth DepthToSpace ExtractImagePatches
    ExtractVolumePatches ScaleAndTranslate DrawBoundingBoxes DrawBoundingBoxesV2
    """)
_BY_EXAMPLE = {
    "ImageProjectiveTransformV2": (0, 1),
    "ImageProjectiveTransformV3": (0, 1),
    "SoftmaxCrossEntropyWithLogits": (0, 1),
    "SparseSoftmaxCrossEntropyWithLogits": (0, 1),
    "BiasAdd": (0,),
    "InTopK": (0, 1),
    "InTopKV2": (0, 1),
    "Multinomial": (0,),
    "StatelessMultinomial": (0,),
    "ExtractGlimpse": (0, 2),
    "ExtractGlimpseV2": (0, 2),
    "SampleDistortedBoundingBox": (0,),
    "CombinedNonMaxSuppression": (0, 1),
    "EditDistance": (),
}
_LAST_DIMS = {
    1: _names("Softmax LogSoftmax TopK TopKV2 NthElement FFT IFFT RFFT IRFFT"),
    2: _names("""
    Cholesky MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixSolve MatrixSolveLs MatrixTriangularSolve
    BatchMatrixTriangularSolve Qr Svd SelfAdjointEigV2 Eig MatrixExponential MatrixLogarithm MatrixSquareRoot Lu
    MatrixBandPart FFT2D IFFT2D RFFT2D IRFFT2D TridiagonalSolve TridiagonalMatMul
    """),
    3: _names("FFT3D IFFT3D RFFT3D IRFFT3D"),
}
_LEADING_DIMS = _names("""
    MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag
    MatrixSetDiagV2 MatrixSetDiagV3
    """)

RULES: dict[str, Rule] = {
    "Add": computing.numbers_plus,
    "AddV2": computing.numbers_plus,
    "Mul": computing.numbers_times,
    "FloorDiv": computing.numbers_over,
    "FloorMod": computing.numbers_over,
    "Select": computing.chosen,
    "SelectV2": computing.chosen,
    "ArgMax": computing.along_axis,
    "ArgMin": computing.along_axis,
    "Cumsum": computing.along_axis,
    "Cumprod": computing.along_axis,
    "CumulativeLogsumexp": computing.along_axis,
    "ReverseV2": computing.reversed_dims,
    "ReverseSequence": computing.reversed_sequences,
    "Roll": computing.rolled,
    "L2Loss": computing.reduced,
    "Einsum": computing.einsum,
    "ScatterNd": computing.scattered,
    "UnsortedSegmentSum": computing.scattered,
    "SegmentSum": computing.scattered,
    "SegmentMean": computing.scattered,
    "SegmentMax": computing.scattered,
    "DenseBincount": computing.scattered,
    "SparseSegmentSum": computing.segments,
    "SparseSegmentMean": computing.segments,
    "SparseSegmentSqrtN": computing.segments,
    "SparseSegmentSumWithNumSegments": computing.segments,
    "SparseSegmentMeanWithNumSegments": computing.segments,
    "SparseSegmentSqrtNWithNumSegments": computing.segments,
    "SparseTensorDenseMatMul": computing.sparse_product,
    "SparseToDense": computing.sparse_to_dense,
    "SpaceToBatchND": computing.to_blocks,
    "BatchToSpaceND": computing.from_blocks,
    "CropAndResize": computing.sampled_boxes,
    "FusedBatchNorm": computing.statistics,
    "FusedBatchNormV2": computing.statistics,
    "FusedBatchNormV3": computing.statistics,
    "Reshape": moving.reshaped,
    "Transpose": moving.transposed,
    "ConjugateTranspose": moving.transposed,
    "ExpandDims": moving.expanded,
    "Squeeze": moving.drop_dims,
    "ConcatV2": moving.concatenated,
    "Pack": moving.packed,
    "Unpack": moving.unpacked,
    "Split": moving.split,
    "SplitV": moving.split,
    "StridedSlice": moving.strided_slice,
    "Slice": moving.cut,
    "Pad": moving.padded,
    "PadV2": moving.padded,
    "MirrorPad": moving.padded,
    "Tile": moving.tiled,
    "BroadcastTo": moving.broadcast,
    "Fill": moving.created,
    "Range": moving.numbered,
    "OneHot": moving.one_hot,
    "Gather": moving.gathered,
    "GatherV2": moving.gathered,
    "ResourceGather": moving.looked_up,
    "GatherNd": moving.gathered_by_coordinates,
    "ResourceGatherNd": moving.looked_up,
    "Where": moving.selected,
    "DynamicPartition": moving.partitioned,
    "DynamicStitch": moving.stitched,
    "ParallelDynamicStitch": moving.stitched,
    "TensorScatterUpdate": moving.written_to_rows,
    "TensorScatterAdd": moving.written_to_rows,
    "TensorScatterSub": moving.written_to_rows,
    "TensorScatterMax": moving.written_to_rows,
    "TensorScatterMin": moving.written_to_rows,
    "CTCLossV2": lists.ctc_loss,
    "CTCLoss": lists.ctc_loss,
    **lists.RULES,
}


def _add(ops: Iterable[str], rule: Rule) -> None:
    RULES.update(dict.fromkeys(ops, rule))


_add(_KEPT, moving.kept)
_add(ELEMENTWISE, computing.elementwise)
_add(_REDUCTIONS, computing.reduced)
_add(PRODUCTS, computing.product)
_add(_IMAGES, computing.convolved)
_add(_LEADING_DIMS, computing.by_leading_dims)
for _count, _ops in _LAST_DIMS.items():
    _add(_ops, computing.by_last_dims(_count))
for _op, _inputs in _BY_EXAMPLE.items():
    RULES[_op] = computing.by_example(*_inputs)
