"""Operators that are not said in indices, by their kind: they run whole."""

from __future__ import annotations

from autodist.graph.operators._base import Operator
from autodist.graph.operators._kinds import Asks, Flow, Handle, Kind, ListUse, Unchanged
from autodist.graph.operators._whole_numbers import counted, counts, lengths

_RANDOM = """
    RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt ParameterizedTruncatedNormal RandomGamma
    RandomGammaGrad RandomPoisson RandomPoissonV2 RandomShuffle RandomIndexShuffle RandomShuffleQueue
    RandomShuffleQueueV2 AnonymousRandomSeedGenerator DeleteRandomSeedGenerator Multinomial RandomCrop
    StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt
    StatelessRandomUniformFullInt StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2
    StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2 StatelessParameterizedTruncatedNormal
    StatelessMultinomial StatelessRandomBinomial StatelessRandomPoisson StatelessRandomGammaV2 StatelessRandomGammaV3
    StatelessShuffle StatefulUniform StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
    StatefulUniformInt StatefulUniformFullInt StatefulRandomBinomial NonDeterministicInts
    StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomGetKey StatelessRandomGetAlg
    StatelessRandomGetCounter RngReadAndSkip RngSkip SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
    StatelessSampleDistortedBoundingBox FractionalMaxPool FractionalAvgPool
    UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler FixedUnigramCandidateSampler
    AllCandidateSampler ThreadUnsafeUnigramCandidateSampler
"""
_READS = "ReadVariableOp VariableV2 Variable TemporaryVariable _ReadVariablesOp DisableCopyOnRead"
_WRITES = """
    AssignVariableOp AssignAddVariableOp AssignSubVariableOp Assign AssignAdd AssignSub
    ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterSub
    ResourceScatterUpdate ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdSub
    ResourceApplyGradientDescent ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyAdam
    ResourceApplyAdamWithAmsgrad ResourceApplyAdaMax ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAdagradDA
    ResourceApplyAdadelta ResourceApplyRMSProp ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2
    ResourceApplyProximalGradientDescent ResourceApplyProximalAdagrad ResourceApplyAddSign ResourceApplyPowerSign
    ResourceSparseApplyMomentum ResourceSparseApplyKerasMomentum ResourceSparseApplyAdagrad
    ResourceSparseApplyAdagradV2 ResourceSparseApplyAdagradDA ResourceSparseApplyAdadelta ResourceSparseApplyRMSProp
    ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2
    ResourceSparseApplyProximalGradientDescent ResourceSparseApplyProximalAdagrad
    ResourceStridedSliceAssign
"""
_SOURCES = "Const Placeholder VarHandleOp NoOp Empty _Arg _Retval ControlTrigger"
_SHAPES = """
    Shape ShapeN Size Rank VariableShape TensorListLength TensorListElementShape BroadcastGradientArgs
    VarIsInitializedOp BroadcastArgs ConcatOffset
"""
_FLOWS = """
    If StatelessIf Case StatelessCase While StatelessWhile PartitionedCall StatefulPartitionedCall
    Switch Merge Enter Exit NextIteration LoopCond RefSwitch SymbolicGradient RemoteCall
"""
_LISTS = """
    EmptyTensorList TensorListReserve TensorListFromTensor TensorListStack TensorListConcat TensorListConcatV2
    TensorListGetItem TensorListSetItem TensorListPushBack TensorListPopBack TensorListGather TensorListScatter
    TensorListScatterV2 TensorListSplit TensorListResize TensorListPushBackBatch TensorListScatterIntoExistingList
    TensorArrayV3 TensorArrayReadV3 TensorArrayWriteV3
"""
_DATA = """
    InvertPermutation Where Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Range LinSpace ListDiff
    CTCLoss CTCLossV2 CTCGreedyDecoder ComputeAccidentalHits EditDistance NonMaxSuppressionV3 NonMaxSuppressionV5
    SpaceToBatchND BatchToSpaceND     Conv FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 MaxPoolGradGrad
    MaxPoolGradV2 ResizeBilinearGrad ResizeNearestNeighborGrad ResizeBicubicGrad CropAndResizeGradImage
    CropAndResizeGradBoxes LRNGrad Dilation2DBackpropInput Dilation2DBackpropFilter MirrorPadGrad
    ScaleAndTranslateGrad DiagPart Diag MatrixDiagPartGrad SparseReshape SparseReorder SparseSlice
    SparseConcat SparseAdd SparseReduceSum SparseFillEmptyRows SparseFillEmptyRowsGrad SparseSegmentSumGrad
    SparseSegmentMeanGrad SparseSegmentSqrtNGrad RaggedTensorToTensor RaggedRange RaggedGather RaggedTensorToSparse
    RaggedTensorFromVariant RaggedTensorToVariant StringSplitV2 StringNGrams UnicodeDecode UnicodeDecodeWithOffsets
    SearchSorted LowerBound UpperBound OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    CudnnRNN GRUBlockCell LSTMBlockCell BlockLSTM BlockLSTMV2 Assert PrintV2 PyFunc PyFuncStateless EagerPyFunc
    LogMessage StringFormat ReduceJoin StringToHash DecodeRaw EncodeBase64 DecodeBase64 DeserializeSparse
    SerializeSparse SerializeManySparse ParseExampleV2 HashTableV2 MutableHashTableV2 InitializeTableV2
    LookupTableInsertV2 LookupTableRemoveV2 LookupTableImportV2 LookupTableExportV2 LookupTableSizeV2
    IteratorGetNext DecodeJpeg DecodePng DecodeImage WriteSummary WriteScalarSummary Timestamp
"""
_HANDLES = (
    ("ResourceScatterNd", Handle.WRITES),
    ("ResourceScatter", Handle.SCATTERS),
    ("ResourceSparseApply", Handle.SCATTERS),
    ("ResourceApply", Handle.ASSIGNS),
    ("ResourceStrided", Handle.WRITES),
    *((name, Handle.ASSIGNS) for name in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")),
    *((name, Handle.READS) for name in ["ReadVariableOp", "VariableShape", "VarIsInitializedOp", "DisableCopyOnRead"]),
)
"""By first letters of an operator's name, what it does with a variable; the first match counts."""
_ASKS = {"Shape": Asks.LENGTHS, "ShapeN": Asks.EACH, "Size": Asks.COUNT, "Rank": Asks.RANK}
_NUMBERS = {"Shape": lengths, "ShapeN": lengths, "Size": counted, "Range": counts}
_TABLES = {
    **dict.fromkeys(["HashTableV2", "MutableHashTableV2"], Handle.MAKES),
    **dict.fromkeys(["LookupTableExportV2", "LookupTableSizeV2"], Handle.READS),
    **dict.fromkeys(
        ["InitializeTableV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2"], Handle.WRITES
    ),
}
_PYTHON = frozenset(["EagerPyFunc", "PyFunc", "PyFuncStateless"])
_ACTING = frozenset(["Assert", "EagerPyFunc", "LogMessage", "PrintV2", "PyFunc"])
_KEYS = frozenset(["StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", "RngReadAndSkip"])
_CALLS = {
    **dict.fromkeys(["If", "StatelessIf", "Case", "StatelessCase"], Flow.BRANCH),
    **dict.fromkeys(["While", "StatelessWhile"], Flow.LOOP),
    **dict.fromkeys(["PartitionedCall", "StatefulPartitionedCall"], Flow.CALL),
}
_EXAMPLES = {
    **dict.fromkeys(["Conv", "FractionalMaxPool", "FractionalAvgPool"], (0,)),
    **dict.fromkeys(["Multinomial", "StatelessMultinomial", "SampleDistortedBoundingBox"], (0,)),
    "EditDistance": (),
}
_CREATING = """
    RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt ParameterizedTruncatedNormal
    StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt
    StatelessRandomUniformFullInt StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2
    StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2 StatelessParameterizedTruncatedNormal
    StatefulUniform StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniformInt StatefulUniformFullInt
    RandomGamma Empty
"""
_ALIGNED = """
    StatelessRandomBinomial StatelessRandomPoisson StatelessRandomGammaV2 StatelessRandomGammaV3 RandomPoissonV2
"""
_ADDING = ("AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterAdd", "ResourceScatterSub")
_UNCHANGED = {"AssignVariableOp": Unchanged.OLD, **dict.fromkeys(_ADDING, Unchanged.ZEROS)}
_LIST_USES = {
    **dict.fromkeys(["EmptyTensorList", "TensorListReserve"], ListUse.MAKES),
    "TensorListFromTensor": ListUse.UNSTACKS,
    "TensorListStack": ListUse.STACKS,
    **dict.fromkeys(["TensorListConcat", "TensorListConcatV2"], ListUse.CONCATENATES),
    "TensorListGetItem": ListUse.GETS,
    "TensorListSetItem": ListUse.SETS,
    "TensorListPushBack": ListUse.APPENDS,
    "TensorListPopBack": ListUse.POPS,
    "TensorListGather": ListUse.PICKS,
}
_ONCE = ("CandidateSampler", "Fractional", "ShuffleQueue", "ComputeAccidentalHits")
"""Parts of the names of those that draw once for all examples."""
_IN_ORDER = frozenset(["StatelessRandomUniformV2", "StatelessRandomNormalV2"])
_FREE = frozenset(["Const", "Placeholder", "NoOp", "Shape", "ShapeN"])


def _handle(name: str) -> Handle | None:
    return next((handle for begin, handle in _HANDLES if name.startswith(begin)), None)


OPERATORS = tuple(
    Operator(
        name,
        kind,
        handle=_handle(name),
        unchanged=_UNCHANGED.get(name),
        table=_TABLES.get(name),
        asks=_ASKS.get(name),
        numbers=_NUMBERS.get(name),
        flow=_CALLS.get(name),
        examples=_EXAMPLES.get(name),
        is_free=name in _FREE,
        is_acting=name in _ACTING,
        calls_python=name in _PYTHON,
        makes_keys=name in _KEYS,
        creates=name in _CREATING.split(),
        is_aligned=name in _ALIGNED.split(),
        list_use=_LIST_USES.get(name),
        finds_distinct=name == "Unique",
        draws_once=any(part in name for part in _ONCE),
        draws_in_order=name in _IN_ORDER,
    )
    for kind, names in (
        (Kind.RANDOM, _RANDOM),
        (Kind.VARIABLE, _READS),
        (Kind.VARIABLE, _WRITES),
        (Kind.SOURCE, _SOURCES),
        (Kind.SHAPE, _SHAPES),
        (Kind.FLOW, _FLOWS),
        (Kind.LIST, _LISTS),
        (Kind.OTHER, _DATA),
    )
    for name in names.split()
)
