"""Broadcast: sufficient factors go to every worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from autodist.carriers import CarrierName, Collective
from autodist.strategies.synchronizers._base import Form
from autodist.strategies.synchronizers._everywhere import OnEveryWorker

if TYPE_CHECKING:
    from autodist.strategies.synchronizers._choice import Choice, ChoiceContext


@dataclass(frozen=True)
class BroadcastSynchronizer(OnEveryWorker):
    """(Broadcast): sufficient factors go to every worker, each rebuilds the gradient from them (Poseidon).

    For gradients that are products over the batch, those of the weights of dense layers. Exact.

    Attributes:
        communicator: Name of the carrier of the factors.

    Example:
        >>> BroadcastSynchronizer("tcp").columns().communicator
        'tcp'
    """

    type: ClassVar[str] = "Broadcast"
    form: ClassVar[Form] = Form.REBUILT
    verb: ClassVar[str] = "broadcast"
    sends_factors: ClassVar[bool] = True
    communicator: CarrierName = Collective.name

    @classmethod
    def suits(cls, choice: Choice, context: ChoiceContext) -> bool:
        """Whether the gradients have factors; those of a shard would save nothing."""
        from autodist.graph import factors_of

        graph = context.graph
        return choice.partition is None and all(
            graph.graph_def is not None and factors_of(graph, variable.name).obstacle is None
            for variable in context.variables
        )

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> BroadcastSynchronizer:
        """See the base class."""
        assert choice.communicator is not None
        return cls(choice.communicator)
