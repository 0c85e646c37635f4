"""The contract of simulators that learn from measured strategies."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy.typing as npt

from autodist.errors import SimulatorError
from autodist.simulator._base import Simulator

if TYPE_CHECKING:
    from autodist.simulator._measured import MeasuredStrategies

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


class LearnedSimulator(Simulator):
    """Learns from measurements to rank strategies; its scores need not be seconds (thesis 8.3.1).

    Args:
        seed: Seed of everything that is drawn.
    """

    option_names: ClassVar[tuple[str, ...]] = ("seed",)
    """The names of its constructor's arguments, which are stored together with what it learns."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    @property
    @abc.abstractmethod
    def learned(self) -> Arrays:
        """All that it has learned, as arrays; empty before it has learned anything."""

    def require_learned(self) -> None:
        """Check that it has learned something.

        Raises:
            SimulatorError: It has not learned anything.
        """
        if not self.learned:
            raise SimulatorError("this simulator has not learned anything", hint="call `fit` first")

    @abc.abstractmethod
    def recall(self, learned: Arrays) -> None:
        """Take over what another simulator of the same kind has learned."""

    @abc.abstractmethod
    def fit(self, data: Sequence[MeasuredStrategies]) -> None:
        """Learn from measured strategies, starting from what was learned before.

        Args:
            data: Data of one graph on one cluster, or of several.

        Raises:
            SimulatorError: Nothing can be learned from them.
        """
