"""The contract of strategy builders."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["StrategyBuilder", "replica_names"]


@dataclasses.dataclass(frozen=True)
class StrategyBuilder(abc.ABC):
    """Makes a strategy for a graph on a cluster; a pure function of both and of its own fields.

    A concrete builder is a frozen dataclass whose fields are its parameters, and whose docstring begins with one line
    that says what it does. Parameters have defaults, and are texts, numbers, bools, Literals, tuples of these or None,
    so that ``str(builder)`` is a text that :func:`get` reads back. A value that isn't allowed gives a StrategyError.
    """

    name: ClassVar[str]
    """What users call it; the class' name."""

    @abc.abstractmethod
    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy for all trainable variables of the graph; it passes :func:`verify`."""

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        pairs = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{self.name}({', '.join(pairs)})"


def replica_names(spec: ResourceSpec) -> tuple[str, ...]:
    """Return the names of all devices that can hold a replica."""
    return tuple(device.name for device in spec.replicas)
