"""Aspects: the respects in which strategies differ, each with its options for a variable on a cluster."""

from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext
from autodist.search.space.aspects._compression import Compression
from autodist.search.space.aspects._mixed_shards import MixedShards
from autodist.search.space.aspects._partition_aspect import Partitioning
from autodist.search.space.aspects._serving import LocalAggregators, Proxies, Staleness
from autodist.search.space.aspects._synchronizer import Synchronization

__all__ = ["ASPECTS", "Aspect", "Choice", "ChoiceContext"]

ASPECTS: tuple[Aspect, ...] = (
    Partitioning(),
    Synchronization(),
    MixedShards(),
    LocalAggregators(),
    Proxies(),
    Staleness(),
    Compression(),
)
"""The aspects in the order in which they choose: whether a variable is cut is decided first (thesis 8.2.3)."""
