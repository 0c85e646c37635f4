"""The contract of strategy builders."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from autodist.carriers import carrier_of_servers
from autodist.registry import Named

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Communicator, GraphCommunicator, Strategy


@dataclasses.dataclass(frozen=True)
class StrategyBuilder(Named, abc.ABC):
    """Makes a strategy for a graph on a cluster; a pure function of both and of its own fields.

    See :class:`~autodist.registry.Named` for what a concrete builder looks like. Its text leaves out parameters with
    default values.
    """

    file: ClassVar[str | None] = None
    """The name of the field that is the path of a file it reads: the file goes to other machines with it."""

    @abc.abstractmethod
    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy for all trainable variables of the graph; it passes :func:`verify`."""

    @property
    def tries(self) -> int:
        """How many strategies are tried out in the first training steps; 1 for a builder that tries none out."""
        return 1

    def check_cluster(self, spec: ResourceSpec) -> None:
        """Check that it can build for a cluster, as far as that does not depend on the graph; called by launchers.

        Raises:
            StrategyError: It can't, for any graph.
        """

    def candidates(self, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        """Build the strategies to try out: up to :attr:`tries` synchronous ones, the likeliest first."""
        return (self.build(graph, spec),)

    @property
    def chooses(self) -> bool:
        """Whether it chooses among many kinds of strategies, so that their carriers are not known beforehand."""
        return False

    def safer_than(self, strategy: Strategy) -> StrategyBuilder | None:
        """Return the builder to try if a step can't be compiled with this one's strategy; None if there is none."""
        return None

    def confined(self, allowed: Collection[str]) -> StrategyBuilder:
        """Return a builder that chooses only strategies that these carry; itself, if it does not choose."""
        return self

    @property
    def tells_carriers(self) -> bool:
        """Whether :meth:`carriers` is known for this builder, rather than the default for builders that do not say."""
        return hasattr(self, "communicator") or type(self).carriers is not StrategyBuilder.carriers

    def carriers(self, installed: Sequence[Communicator]) -> tuple[GraphCommunicator, ...]:
        """Return the possible carriers of its strategies' collectives on machines that have these communicators.

        It is the one that its field ``communicator`` names; without such a field, the carriers of servers.

        Args:
            installed: The communicators, the fastest first.
        """
        communicator: GraphCommunicator = getattr(self, "communicator", carrier_of_servers())
        return (self._automatic(installed) if communicator == "auto" else communicator,)

    def _automatic(self, installed: Sequence[Communicator]) -> GraphCommunicator:
        """Return the communicator that ``auto`` means: the fastest."""
        return installed[0]

    def __str__(self) -> str:
        values = {field: getattr(self, field.name) for field in dataclasses.fields(self)}
        pairs = (f"{field.name}={value!r}" for field, value in values.items() if value != field.default)
        return f"{self.name}({', '.join(pairs)})"


def replica_names(spec: ResourceSpec) -> tuple[str, ...]:
    """Return the names of all devices that can hold a replica."""
    return tuple(device.name for device in spec.replicas)
