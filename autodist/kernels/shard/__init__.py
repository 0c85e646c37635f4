"""Variables that are cut: every shard, with its slots and its update, is a variable of its own."""

from autodist.kernels.shard._numbers_of_parts import OF_PARTS, SHAPE_OF_PARTS
from autodist.kernels.shard._partition import Partition, shard_name
from autodist.kernels.shard._shard_rows import with_shape

__all__ = [
    "OF_PARTS",
    "SHAPE_OF_PARTS",
    "Partition",
    "shard_name",
    "with_shape",
]
