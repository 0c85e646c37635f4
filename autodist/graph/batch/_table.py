"""The table: what each operator does with the batch. One that isn't here is not known to keep examples apart."""

from __future__ import annotations

from functools import partial

from autodist.graph.batch import _by_numbers as by_numbers
from autodist.graph.batch import _computing as computing
from autodist.graph.batch import _lists as lists
from autodist.graph.batch import _moving as moving
from autodist.graph.batch._by_indices import by_indices
from autodist.graph.batch._rows import Rule
from autodist.graph.operators import OPERATORS, Kind, Passes, operator

RULES: dict[str, Rule] = {
    "Add": computing.numbers_plus,
    "AddV2": computing.numbers_plus,
    "Mul": computing.numbers_times,
    "FloorDiv": computing.numbers_over,
    "FloorMod": computing.numbers_over,
    "ScatterNd": partial(computing.scattered, numbers_at=0, length_at=2),
    "UnsortedSegmentSum": partial(computing.scattered, length_at=2),
    "SegmentSum": computing.scattered,
    "SegmentMean": computing.scattered,
    "SegmentMax": computing.scattered,
    "DenseBincount": partial(computing.scattered, numbers_at=0, length_at=1),
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
    "OptionalFromValue": moving.kept,
    "OptionalGetValue": moving.kept,
    "IdentityN": moving.each_kept,
    "Reshape": moving.reshaped,
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
    "Gather": by_numbers.gathered,
    "GatherV2": by_numbers.gathered,
    "ResourceGather": by_numbers.looked_up,
    "GatherNd": by_numbers.gathered_by_coordinates,
    "ResourceGatherNd": by_numbers.looked_up,
    "Where": by_numbers.selected,
    "DynamicPartition": by_numbers.partitioned,
    "DynamicStitch": by_numbers.stitched,
    "ParallelDynamicStitch": by_numbers.stitched,
    "CTCLossV2": lists.ctc_loss,
    "CTCLoss": lists.ctc_loss,
}


for _name, _known in OPERATORS.items():
    if _known.list_use in lists.RULES:
        RULES[_name] = lists.RULES[_known.list_use]
    elif _known.chooses:
        RULES[_name] = computing.chosen
    elif _known.gives_statistics:
        RULES[_name] = computing.statistics
    elif _known.updates_places:
        RULES[_name] = by_numbers.written_to_rows
    elif _known.passes in (Passes.SAME, Passes.TYPE):
        RULES.setdefault(_name, moving.kept)
    elif _known.kind is Kind.ELEMENTWISE or _known.is_aligned:
        RULES.setdefault(_name, computing.elementwise)
    elif _known.examples is not None:
        RULES[_name] = computing.by_example(*_known.examples)


def rule_of(op: str) -> Rule | None:
    """The rule by which an operator treats the batch: its own, else its index expression; None if unknown."""
    known = operator(op)
    return RULES.get(op) or (by_indices if known is not None and known.describe is not None else None)
