"""Tile: each replica holds a part of the variable, computes with it and updates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from autodist.strategies._problem import Problem, listed
from autodist.strategies.synchronizers._base import Check, Columns, Form, Synchronizer, Terms
from autodist.strategies.synchronizers._choice import Choice

if TYPE_CHECKING:
    from autodist.cost import Links, Share
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig, Strategy

__all__ = ["TileSynchronizer"]


@dataclass(frozen=True)
class TileSynchronizer(Synchronizer):
    """(Tile): each replica holds one part of the variable, computes with it, and updates it; no gradient travels.

    The variable is cut along one dim into as many equal parts as there are replicas. What is computed of them is
    computed where they are, so activations travel in the place of gradients (SoyBean, Tofu).

    Attributes:
        destination: The device of the replica that has this part, ``"host:CPU:0"``.
        examples: The number of examples of a step for which workers decide what travels, which all must do alike; 0 for
            one that is as good as any.

    Example:
        >>> TileSynchronizer("a:CPU:0").columns().where
        'a:CPU:0'

    """

    type: ClassVar[str] = "Tile"
    form: ClassVar[Form] = Form.SERVED
    verb: ClassVar[str] = "tiled"
    destination: str
    examples: int = 0

    @property
    def tiled_for(self) -> int:
        """See the base class."""
        return self.examples

    @property
    def home(self) -> str:
        """See the base class."""
        return self.destination

    @property
    def devices(self) -> tuple[str, ...]:
        """See the base class."""
        return (self.destination,)

    def renamed(self, name: Callable[[str], str]) -> TileSynchronizer:
        """See the base class."""
        return replace(self, destination=name(self.destination))

    def at(self, home: str) -> TileSynchronizer:
        """See the base class."""
        return replace(self, destination=home)

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """Nothing: neither the value nor its gradient leaves the replica."""
        nothing = replace(message, summed_bytes=0.0, gathered_bytes=0.0, gathered_rows=0.0, reads=0, lookup_rows=0.0)
        return replace(nothing, gradient_rows=0.0).never_coded

    def links(self, message: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
        """See the base class."""
        return {}

    @classmethod
    def checks(cls) -> tuple[Check, ...]:
        """See the base class."""
        return (_parts,)

    def columns(self) -> Columns:
        """See the base class."""
        return Columns(self.type, where=self.destination)

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> TileSynchronizer:
        """See the base class."""
        return cls(home)

    @classmethod
    def suits(cls, choice: Choice, scene: object) -> bool:
        """No: :class:`~autodist.search.tilings.Tiled` finds which dims go together, for all variables at once."""
        return False

    def choice(self, graph: GraphConfig) -> Choice:
        """See the base class."""
        return Choice(self.type)

    def terms(self, message: ShardMessages) -> Terms:
        """See the base class."""
        return Terms(self.form, server=self.destination, has_own_connections=True)


def _parts(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield what is not one equal part for each replica, in their order."""
    replicas = strategy.graph.replicas
    for config in strategy.variables:
        kinds = {type(shard.synchronizer) for shard in config.shards}
        if TileSynchronizer not in kinds:
            continue
        name, variable = config.variable, graph.variable(config.variable)
        found = [shard.synchronizer.home or "" for shard in config.shards]
        if len(kinds) > 1 or found != list(replicas):
            reason = "each replica computes with its own part, in the order of the replicas"
            yield Problem(name, "tiles", listed(found), listed(replicas), reason)
        cut = [
            (dim, entry)
            for dim, entry in enumerate((config.partition or ())[: len(variable.shape)])
            if (len(entry) if isinstance(entry, tuple) else entry) > 1
        ]
        allowed = f"equal parts of one dim that {len(replicas)} divides"
        if len(cut) > 1 or any(isinstance(entry, tuple) or variable.shape[dim] % entry for dim, entry in cut):
            yield Problem(name, "partition", f"{config.partition}", allowed, "replicas have parts of one size")
        if variable.is_sparse and any(dim for dim, _ in cut):
            yield Problem(name, "partition", f"{config.partition}", "parts of dim 0", "its gradient has rows")
        numbers = {shard.synchronizer.tiled_for for shard in config.shards}
        if len(numbers) > 1 or min(number or 0 for number in numbers) < 0:
            yield Problem(name, "examples", listed(map(str, numbers)), "one number, at least 0", "it is one plan")
        if any(shard.compressor for shard in config.shards):
            yield Problem(name, "compressor", f"{config.shards[0].compressor}", "None", "no gradient travels")
