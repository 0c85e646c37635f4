"""From the configs of variables to a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autodist.carriers import carrier_of_servers
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._strategy import GraphCommunicator, GraphConfig, Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec


def assemble(
    builder: StrategyBuilder,
    graph: TrainingGraph,
    spec: ResourceSpec,
    configs: Mapping[str, VariableConfig],
    communicator: GraphCommunicator,
    remark: str = "",
) -> Strategy:
    """The strategy of these configs on all replicas of the cluster.

    Args:
        builder: The builder that made it.
        graph: G.
        spec: D.
        configs: By variable.
        communicator: The carrier of small state without servers; with servers, state goes over their carrier.
        remark: A text that says where the builder did not do what it was asked for, and why.
    """
    chosen = tuple(configs[variable.name] for variable in graph.trainable)
    synchronizers = [shard.synchronizer for config in chosen for shard in config.shards]
    has_servers = any(synchronizer.home is not None for synchronizer in synchronizers)
    small = carrier_of_servers() if has_servers else communicator
    text = f"{builder}: {remark}" if remark else str(builder)
    return Strategy(GraphConfig(replica_names(spec), small), chosen, builder=text)
