"""Servers, all-reduce, or sufficient factors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, final

from autodist import carriers
from autodist.search.space.aspects._base import Aspect, Choice, ChoiceContext
from autodist.strategies import Form, synchronizers


@final
class Synchronization(Aspect):
    """Which synchronizer a variable has, and what carries its collectives."""

    name: ClassVar[str] = "synchronizer"

    @property
    def words(self) -> frozenset[str]:  # type: ignore[override]
        """See the base class."""
        return frozenset({*(kind.lower() for kind in synchronizers()), *carriers.names()})

    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """A server if an installed carrier works with servers, and each kind of collective over each carrier."""
        streams = [(name, True) for name in context.communicators if carriers.get(name).has_streams]
        kinds = synchronizers().values()
        for communicator, on_servers in (*streams[:1], *((name, False) for name in context.communicators)):
            for kind in kinds:
                if (kind.form is Form.SERVED) is on_servers and kind.suits(choice, context):
                    yield dataclasses.replace(choice, synchronizer=kind.type, communicator=communicator)
