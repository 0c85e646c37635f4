"""Servers, all-reduce, or sufficient factors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist import carriers
from autodist.search.space.aspects._base import Aspect, Choice, Scene
from autodist.strategies import Form, synchronizers

__all__ = ["Synchronization"]


@final
class Synchronization(Aspect):
    """Which synchronizer a variable has, and what carries its collectives."""

    name: ClassVar[str] = "synchronizer"

    @property
    def words(self) -> frozenset[str]:  # type: ignore[override]
        """See the base class."""
        gradients = carriers.names_of(lambda carrier: carrier.carries_gradients)
        return frozenset({*(kind.lower() for kind in synchronizers()), *gradients})

    def options(self, choice: Choice, scene: Scene) -> Iterator[Choice]:
        """A server, by streams where something installed has them, and each way of collectives that is installed."""
        streams = next((name for name in scene.communicators if carriers.get(name).has_streams), None)
        kinds = synchronizers().values()
        served = [(streams, True)] if streams is not None or scene.has_queues else []
        for communicator, on_servers in (*served, *((name, False) for name in scene.communicators)):
            for kind in kinds:
                if (kind.form is Form.SERVED) is on_servers and kind.suits(choice, scene):
                    yield dataclasses.replace(choice, synchronizer=kind.type, communicator=communicator)
