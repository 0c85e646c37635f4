"""Whether gradients that are to travel as factors have factors, and their variables live where these can be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodist.strategies._problem import Problem
from autodist.strategies._strategy import ShardConfig, Strategy, VariableConfig, is_factors
from autodist.strategies.synchronizers import Form

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec


def check_factors(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the reasons why sufficient factors can't replace a gradient.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> from autodist.strategies import AllReduceSynchronizer, GraphConfig
        >>> config = VariableConfig.whole("w", AllReduceSynchronizer(0), "SufficientFactors")
        >>> strategy = Strategy(GraphConfig((), "tcp"), (config,))
        >>> [str(p)[:61] for p in check_factors(strategy, TrainingGraph(None, (), (), (), ()), None)]
        ["`w`: compressor of an AllReduce is 'SufficientFactors', allow"]
    """
    trainable = {variable.name for variable in graph.trainable}
    for config in strategy.variables:
        if config.is_factored:
            for shard in config.shards:
                yield from _encoders(config.variable, shard)
            yield from _whole(config)
        if config.is_factored and config.variable in trainable:
            yield from _obstacle(config, graph)


def _encoders(variable: str, shard: ShardConfig) -> Iterator[Problem]:
    encoded = shard.compressor is not None and not is_factors(shard.compressor)
    kind = shard.synchronizer.type
    if shard.synchronizer.sends_factors and encoded:
        reason = f"{kind} sends the factors as they are"
        yield Problem(variable, "compressor", f"{shard.compressor!r}", "null or 'SufficientFactors'", reason)
    if shard.synchronizer.form is Form.REDUCED and is_factors(shard.compressor):
        reason = "factors are gathered, there is nothing to reduce: use Broadcast, or PS with the encoder"
        yield Problem(variable, f"compressor of an {kind}", f"{shard.compressor!r}", "other encoders", reason)


def _whole(config: VariableConfig) -> Iterator[Problem]:
    if config.partition is not None:
        reason = "the gradient of a shard needs one factor as a whole, so that partitioning saves nothing"
        yield Problem(config.variable, "partition", f"{config.partition}", "None with sufficient factors", reason)


def _obstacle(config: VariableConfig, graph: TrainingGraph) -> Iterator[Problem]:
    from autodist.graph import factors_of

    obstacle = factors_of(graph, config.variable).obstacle
    if obstacle is None:
        return
    senders = {shard.synchronizer.type for shard in config.shards if shard.synchronizer.sends_factors}
    if senders:
        given = " and ".join(f"{kind!r}" for kind in sorted(senders))
        yield Problem(config.variable, "synchronizer", given, "'PS' or 'AllReduce'", _reason(obstacle))
    else:
        yield Problem(config.variable, "compressor", "'SufficientFactors'", "another or null", _reason(obstacle))


def _reason(obstacle: str) -> str:
    return f"it has no sufficient factors: {obstacle}"
