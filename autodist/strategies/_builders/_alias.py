"""Builders that stand for another builder with an option, under a name of their own."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any

from autodist.strategies._builders._base import StrategyBuilder

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy


@dataclasses.dataclass(frozen=True)
class Alias(StrategyBuilder, abc.ABC):
    """A builder whose strategies are those of another one, but name this one as their builder."""

    @property
    @abc.abstractmethod
    def meant(self) -> StrategyBuilder:
        """The other builder, with the option."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Its own parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build what the other one builds."""
        return dataclasses.replace(self.meant.build(graph, spec), builder=str(self))
