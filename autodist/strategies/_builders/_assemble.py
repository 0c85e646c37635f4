"""From the configs of variables to a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.carriers import Queue
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._strategy import GraphCommunicator, GraphConfig, Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

__all__ = ["assemble"]


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
        builder: Who built it.
        graph: G.
        spec: D.
        configs: By variable.
        communicator: What carries small state where no collective of a gradient decides it: beside servers alone it is
            ``queue``, whatever this says.
        remark: What the builder did otherwise than it is asked for, and why.

    """
    chosen = tuple(configs[variable.name] for variable in graph.trainable)
    synchronizers = [shard.synchronizer for config in chosen for shard in config.shards]
    carrier = carriers.get(communicator)
    served = {synchronizer.home is not None for synchronizer in synchronizers}
    small = Queue.name if served == {True} and not carrier.has_streams else communicator
    if len(served) > 1:
        assert carrier.fits_servers, f"{carrier.called} can't run beside servers"
    text = f"{builder}: {remark}" if remark else str(builder)
    return Strategy(GraphConfig.packing(replica_names(spec), small, chosen), chosen, builder=text)
