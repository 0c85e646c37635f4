"""Servers, all-reduce, or sufficient factors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist import carriers
from autodist.graph import factors_of
from autodist.search._aspects._base import Aspect, Choice, Scene

__all__ = ["Synchronization"]


@final
class Synchronization(Aspect):
    """Which synchronizer a variable has, and what carries its collectives."""

    name: ClassVar[str] = "synchronizer"

    @property
    def words(self) -> frozenset[str]:  # type: ignore[override]
        """See the base class."""
        return frozenset({"ps", "allreduce", "broadcast", *carriers.names_of(lambda one: one.carries_gradients)})

    def options(self, choice: Choice, scene: Scene) -> Iterator[Choice]:
        """A server, by AutoDist's own library where it is installed, and each way of collectives that is."""
        streams = next((name for name in scene.communicators if carriers.get(name).has_streams), None)
        yield dataclasses.replace(choice, synchronizer="PS", communicator=streams)
        for communicator in scene.communicators:
            yield dataclasses.replace(choice, synchronizer="AllReduce", communicator=communicator)
            if choice.partition is None and all(_has_factors(scene, v.name) for v in scene.variables):
                yield dataclasses.replace(choice, synchronizer="Broadcast", communicator=communicator)


def _has_factors(scene: Scene, name: str) -> bool:
    return scene.graph.graph_def is not None and factors_of(scene.graph, name).obstacle is None
