"""Strategies: their representation, their verification and their builders.

>>> builder = AllReduce(chunk_size=64, communicator="collective")
>>> str(builder)
"AllReduce(chunk_size=64, communicator='collective')"
"""

from autodist.registry import PluginWarning
from autodist.strategies._builders import (
    PS,
    AllReduce,
    BytePS,
    HierarchicalPS,
    Horovod,
    Parallax,
    PartitionedAR,
    PartitionedPS,
    PSLoadBalancing,
    RandomAxisPartitionAR,
    StrategyBuilder,
    UnevenPartitionedPS,
)
from autodist.strategies._communicators import installed_communicators
from autodist.strategies._explain import Explanation, ExplanationRow, explain
from autodist.strategies._problem import Problem
from autodist.strategies._registry import BuilderInfo, builders, compose, get
from autodist.strategies._shards import Partition, ShardSlice, num_shards, shard_slices
from autodist.strategies._strategy import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    Communicator,
    GraphCommunicator,
    GraphConfig,
    Order,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    Synchronizer,
    VariableConfig,
)
from autodist.strategies._traffic import DEFAULT_BATCH_SIZE, Flow, Traffic, traffic
from autodist.strategies._verify import check, verify

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "PS",
    "AllReduce",
    "AllReduceSynchronizer",
    "BroadcastSynchronizer",
    "BuilderInfo",
    "BytePS",
    "Communicator",
    "Explanation",
    "ExplanationRow",
    "Flow",
    "GraphCommunicator",
    "GraphConfig",
    "HierarchicalPS",
    "Horovod",
    "Order",
    "PSLoadBalancing",
    "PSSynchronizer",
    "Parallax",
    "Partition",
    "PartitionedAR",
    "PartitionedPS",
    "PluginWarning",
    "Problem",
    "RandomAxisPartitionAR",
    "ShardConfig",
    "ShardSlice",
    "Strategy",
    "StrategyBuilder",
    "Synchronizer",
    "Traffic",
    "UnevenPartitionedPS",
    "VariableConfig",
    "builders",
    "check",
    "compose",
    "explain",
    "get",
    "installed_communicators",
    "num_shards",
    "shard_slices",
    "traffic",
    "verify",
]
