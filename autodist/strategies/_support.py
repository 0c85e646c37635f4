"""Which values of the representation this version's kernels run; a new kernel widens the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autodist.strategies._problem import Problem
from autodist.strategies._strategy import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
)

__all__ = ["SUPPORTED", "unsupported"]

SUPPORTED: dict[type, dict[str, tuple[Any, ...]]] = {
    GraphConfig: {"communicator": ("horovod", "collective", "queue")},
    VariableConfig: {},
    ShardConfig: {},
    PSSynchronizer: {},
    AllReduceSynchronizer: {"communicator": ("horovod", "collective")},
    BroadcastSynchronizer: {"communicator": ("horovod", "collective")},
}


def unsupported(strategy: Strategy) -> Iterator[Problem]:
    """Yield the values that are meaningful but that no kernel of this version runs."""
    yield from _limits(None, strategy.graph)
    for config in strategy.variables:
        yield from _limits(config.variable, config)
        for shard in config.shards:
            yield from _limits(config.variable, shard)
            yield from _limits(config.variable, shard.synchronizer)


def _limits(variable: str | None, part: Any) -> Iterator[Problem]:
    for aspect, values in SUPPORTED[type(part)].items():
        given = getattr(part, aspect)
        if given not in values:
            name = "synchronizer" if aspect == "type" else aspect
            allowed = " or ".join(f"{value!r}" for value in values)
            yield Problem(variable, name, f"{given!r}", allowed, "anything else is not supported by this version")
