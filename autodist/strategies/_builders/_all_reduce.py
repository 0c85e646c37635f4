"""All-reduce with fused groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, final

from autodist.registry import raise_mistakes, read
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._communicators import installed_communicators
from autodist.strategies._strategy import AllReduceSynchronizer, Communicator, GraphConfig, Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec

__all__ = ["AllReduce"]


@final
@dataclass(frozen=True)
class AllReduce(StrategyBuilder):
    """All-reduce: every worker holds all variables, gradients are summed in groups in the order they become ready.

    ``chunk_size`` variables that follow each other in the backward pass make one group, as far as they have one dtype
    and dense gradients; a sparse variable is a group of its own. Group 0 is ready first.

    Attributes:
        chunk_size: How many variables a group holds at most, >= 1; counts variables, not bytes.
        communicator: What carries the collectives; ``auto`` takes Horovod where it is built, else TensorFlow's own.

    Raises:
        StrategyError: If a parameter is not allowed.

    """

    name: ClassVar[str] = "AllReduce"
    chunk_size: int = 128
    communicator: Literal["auto", "horovod", "collective"] = "auto"

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        read(Literal["auto", "horovod", "collective"], self.communicator, "communicator", mistakes)
        if type(self.chunk_size) is not int or self.chunk_size < 1:
            mistakes.append(f"`chunk_size` is {self.chunk_size!r}, allowed: a whole number of at least 1")
        raise_mistakes("AllReduce", mistakes)

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        carrier: Communicator = installed_communicators()[0] if self.communicator == "auto" else self.communicator
        groups = _groups(_backward(graph), self.chunk_size)
        configs = tuple(
            VariableConfig.whole(v.name, AllReduceSynchronizer(groups[v.name], communicator=carrier))
            for v in graph.trainable
        )
        return Strategy(GraphConfig(replica_names(spec), carrier), configs, builder=str(self))


def _backward(graph: TrainingGraph) -> list[Variable]:
    """Return the trainable variables, that whose gradient exists first at the front."""
    return sorted(graph.trainable, key=lambda v: v.backward_order if v.backward_order >= 0 else len(graph.variables))


def _groups(variables: list[Variable], chunk_size: int) -> dict[str, int]:
    numbers: dict[tuple[object, ...], int] = {}
    groups: dict[str, int] = {}
    for index, variable in enumerate(variables):
        # Sparse gradients are gathered, not reduced, and one buffer has one dtype.
        key = ("sparse", index) if variable.is_sparse else ("dense", index // chunk_size, variable.dtype)
        groups[variable.name] = numbers.setdefault(key, len(numbers))
    return groups
