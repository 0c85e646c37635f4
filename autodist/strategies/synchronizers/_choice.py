"""A search's choice for a variable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition


@dataclass(frozen=True)
class Choice:
    """A strategy's choice for a variable, without the homes and the groups of its shards.

    Attributes:
        synchronizer: The ``type`` of its synchronizer; of that of its first shard, if shards have several.
        partition: None leaves it whole.
        communicator: Carrier of collectives, or of messages to and from servers; None if none is chosen.
        transfer: Whether stations sum and fetch for whole hosts.
        local_proxy: Whether every worker reads a cached copy.
        sync: Whether a step waits for all gradients.
        staleness: How many steps a worker may be ahead.
        compressor: Encoder of its gradients.
        by_shard: The ``type`` of each shard's synchronizer, if they are not all of one.

    Example:
        >>> Choice("PS", staleness=2).sync
        True
        >>> mixed = Choice("PS", (3, 1), by_shard=("PS", "AllReduce", "AllReduce"))
        >>> [choice.synchronizer for choice in mixed.of_shards]
        ['PS', 'AllReduce']
    """

    synchronizer: str = "PS"
    partition: Partition | None = None
    communicator: str | None = None
    transfer: bool = False
    local_proxy: bool = False
    sync: bool = True
    staleness: int = 0
    compressor: str | None = None
    by_shard: tuple[str, ...] = ()

    @property
    def of_shards(self) -> tuple[Choice, ...]:
        """The choices for single shards that it consists of, each once: for most variables there is one."""
        if not self.by_shard:
            return (self,)  # a search asks for this millions of times
        return tuple(replace(self, synchronizer=kind) for kind in dict.fromkeys(self.by_shard))


@dataclass(frozen=True)
class ChoiceContext:
    """The circumstances that choices are made for.

    Attributes:
        graph: G.
        spec: D.
        variables: Coupled variables, for which one choice is made; most are alone.
        communicators: The carriers of collectives, the fastest first.
    """

    graph: TrainingGraph
    spec: ResourceSpec
    variables: tuple[Variable, ...]
    communicators: tuple[str, ...]
