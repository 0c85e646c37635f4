"""Data of steps: batches and arguments, datasets, and which part of them each worker takes."""

from autodist.runtime.data._arguments import Arguments, ArgumentSplits, check_is_global, split_by_rows
from autodist.runtime.data._arrays import aligned_copy, aligned_empty, sharing_tensor
from autodist.runtime.data._batch import (
    BatchSplit,
    LocalArray,
    WholeArray,
    WorkerShares,
    batch_size,
    has_parts,
    part_of,
    split_global,
    split_local,
)
from autodist.runtime.data._batch_check import BatchCheck
from autodist.runtime.data._batch_notes import without_note
from autodist.runtime.data._convention import Convention, check_convention
from autodist.runtime.data._dataset_ends import DatasetEnds, going_on_together
from autodist.runtime.data._dataset_structure import captured_resources, has_unseeded_shuffle
from autodist.runtime.data._declared import NOTHING_DECLARED, Declared
from autodist.runtime.data._fingerprints import as_floats, fingerprint_of, hashed
from autodist.runtime.data._flattening import flatten, flatten_batch
from autodist.runtime.data._iterators import let_go_of_iterators_in_time
from autodist.runtime.data._local_batches import LocalBatches
from autodist.runtime.data._random_maps import drawn_parts
from autodist.runtime.data._sharded_dataset import (
    DatasetPasses,
    ShardBy,
    ShardedDataset,
    is_pass,
    shard_dataset,
)
from autodist.runtime.data._values_in_files import FILED_VALUES

__all__ = [
    "FILED_VALUES",
    "NOTHING_DECLARED",
    "ArgumentSplits",
    "Arguments",
    "BatchCheck",
    "BatchSplit",
    "Convention",
    "DatasetEnds",
    "DatasetPasses",
    "Declared",
    "LocalArray",
    "LocalBatches",
    "ShardBy",
    "ShardedDataset",
    "WholeArray",
    "WorkerShares",
    "aligned_copy",
    "aligned_empty",
    "as_floats",
    "batch_size",
    "captured_resources",
    "check_convention",
    "check_is_global",
    "drawn_parts",
    "fingerprint_of",
    "flatten",
    "flatten_batch",
    "going_on_together",
    "has_parts",
    "has_unseeded_shuffle",
    "hashed",
    "is_pass",
    "let_go_of_iterators_in_time",
    "part_of",
    "shard_dataset",
    "sharing_tensor",
    "split_by_rows",
    "split_global",
    "split_local",
    "without_note",
]
