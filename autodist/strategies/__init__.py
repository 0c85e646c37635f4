"""Strategies: their representation, their verification and their builders.

>>> builder = AllReduce(chunk_size=64, communicator="collective")
>>> str(builder)
"AllReduce(chunk_size=64, communicator='collective')"
"""

from autodist.carriers import installed_communicators
from autodist.cost import Flow, Share, Traffic
from autodist.registry import PluginWarning
from autodist.strategies._builder_registry import (
    BuilderInfo,
    StrategyLike,
    builders,
    compose,
    fitting,
    get,
    names_builder,
)
from autodist.strategies._builders import (
    PS,
    SFB,
    AllReduce,
    BytePS,
    HierarchicalPS,
    Horovod,
    Manual,
    Parallax,
    PartitionedAR,
    PartitionedPS,
    PlanWarning,
    Poseidon,
    PSLoadBalancing,
    RandomAxisPartitionAR,
    StrategyBuilder,
    UnevenPartitionedPS,
    can_split,
    can_tile,
    in_backward_order,
    tile_config,
    tile_variables,
    why_whole,
)
from autodist.strategies._coupled import coupled_units
from autodist.strategies._diff import Difference, StrategyDiff, diff
from autodist.strategies._explain import Cost, Explanation, ExplanationRow, HostTraffic, LinkTraffic, explain
from autodist.strategies._for_step import for_step
from autodist.strategies._messages import shard_messages
from autodist.strategies._permission import Permission, needs_servers
from autodist.strategies._problem import Problem, sentences
from autodist.strategies._retargeted import RetargetedWarning, retargeted_to
from autodist.strategies._shard_messages import ShardMessages, host_of
from autodist.strategies._shards import Partition, ShardSlice, num_shards, shard_slices
from autodist.strategies._strategy import (
    PACK_BYTES,
    Communicator,
    GraphCommunicator,
    GraphConfig,
    ShardConfig,
    Strategy,
    VariableConfig,
)
from autodist.strategies._tile_costs import tile_costs, tiled_dims
from autodist.strategies._traffic import DEFAULT_BATCH_SIZE, traffic
from autodist.strategies._whole_work import whole_work
from autodist.strategies.checks import check, verify
from autodist.strategies.synchronizers import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    Choice,
    ChoiceContext,
    Form,
    OnEveryWorker,
    PSSynchronizer,
    Synchronizer,
    Terms,
    TileSynchronizer,
    group_problems,
    kind_of,
    synchronizers,
)

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "PACK_BYTES",
    "PS",
    "SFB",
    "AllReduce",
    "AllReduceSynchronizer",
    "BroadcastSynchronizer",
    "BuilderInfo",
    "BytePS",
    "Choice",
    "ChoiceContext",
    "Communicator",
    "Cost",
    "Difference",
    "Explanation",
    "ExplanationRow",
    "Flow",
    "Form",
    "GraphCommunicator",
    "GraphConfig",
    "HierarchicalPS",
    "Horovod",
    "HostTraffic",
    "LinkTraffic",
    "Manual",
    "OnEveryWorker",
    "PSLoadBalancing",
    "PSSynchronizer",
    "Parallax",
    "Partition",
    "PartitionedAR",
    "PartitionedPS",
    "Permission",
    "PlanWarning",
    "PluginWarning",
    "Poseidon",
    "Problem",
    "RandomAxisPartitionAR",
    "RetargetedWarning",
    "ShardConfig",
    "ShardMessages",
    "ShardSlice",
    "Share",
    "Strategy",
    "StrategyBuilder",
    "StrategyDiff",
    "StrategyLike",
    "Synchronizer",
    "Terms",
    "TileSynchronizer",
    "Traffic",
    "UnevenPartitionedPS",
    "VariableConfig",
    "builders",
    "can_split",
    "can_tile",
    "check",
    "compose",
    "coupled_units",
    "diff",
    "explain",
    "fitting",
    "for_step",
    "get",
    "group_problems",
    "host_of",
    "in_backward_order",
    "installed_communicators",
    "kind_of",
    "names_builder",
    "needs_servers",
    "num_shards",
    "retargeted_to",
    "sentences",
    "shard_messages",
    "shard_slices",
    "synchronizers",
    "tile_config",
    "tile_costs",
    "tile_variables",
    "tiled_dims",
    "traffic",
    "verify",
    "whole_work",
    "why_whole",
]
