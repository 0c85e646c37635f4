"""The builders, one file each; ``_base`` says what a builder is."""

from autodist.strategies._builders._all_reduce_builder import AllReduce
from autodist.strategies._builders._base import StrategyBuilder
from autodist.strategies._builders._byte_ps import BytePS
from autodist.strategies._builders._collectives import in_backward_order
from autodist.strategies._builders._hierarchical_ps import HierarchicalPS
from autodist.strategies._builders._horovod_builder import Horovod
from autodist.strategies._builders._manual import Manual, PlanWarning
from autodist.strategies._builders._parallax import Parallax
from autodist.strategies._builders._partitioned_ar import PartitionedAR, RandomAxisPartitionAR
from autodist.strategies._builders._partitioned_ps import PartitionedPS, UnevenPartitionedPS
from autodist.strategies._builders._partitions import can_split
from autodist.strategies._builders._poseidon import Poseidon
from autodist.strategies._builders._ps_builder import PS
from autodist.strategies._builders._ps_load_balancing import PSLoadBalancing
from autodist.strategies._builders._sfb import SFB
from autodist.strategies._builders._tile_variables import can_tile, tile_config, tile_variables, why_whole

__all__ = [
    "BUILDERS",
    "PS",
    "SFB",
    "AllReduce",
    "BytePS",
    "HierarchicalPS",
    "Horovod",
    "Manual",
    "PSLoadBalancing",
    "Parallax",
    "PartitionedAR",
    "PartitionedPS",
    "PlanWarning",
    "Poseidon",
    "RandomAxisPartitionAR",
    "StrategyBuilder",
    "UnevenPartitionedPS",
    "can_split",
    "can_tile",
    "in_backward_order",
    "tile_config",
    "tile_variables",
    "why_whole",
]

BUILDERS: tuple[type[StrategyBuilder], ...] = (
    PS,
    SFB,
    AllReduce,
    BytePS,
    HierarchicalPS,
    Horovod,
    Manual,
    PSLoadBalancing,
    Parallax,
    PartitionedAR,
    PartitionedPS,
    Poseidon,
    RandomAxisPartitionAR,
    UnevenPartitionedPS,
)
"""The builders that :func:`autodist.strategies.get` knows by name."""
