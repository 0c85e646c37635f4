"""Variables that are cut: every shard, with its slots and its update, is a variable of its own."""

from autodist.kernels.shard._partition import Partition, shard_name
from autodist.kernels.shard._shard_rows import with_shape

__all__ = [
    "Partition",
    "shard_name",
    "with_shape",
]
