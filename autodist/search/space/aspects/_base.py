"""The contract of aspects: each gives the choices of a strategy for a variable in one respect."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import ClassVar

from autodist.strategies import Choice, ChoiceContext

__all__ = ["Aspect", "Choice", "ChoiceContext"]


class Aspect(abc.ABC):
    """One respect in which strategies differ (thesis 7.3.2, 8.2.3)."""

    name: ClassVar[str]
    """Its name for users."""

    changes_results: ClassVar[bool] = False
    """Whether its options train differently from one device: such aspects are left out unless they are asked for."""

    is_extra: ClassVar[bool] = False
    """Whether it is left out unless it is asked for, because its options make the space much larger."""

    is_simulated: ClassVar[bool] = True
    """Whether simulators can predict the times of its options; otherwise only trials show them."""

    words: ClassVar[frozenset[str]]
    """The names of its options in rules, parameters aside; see :func:`words_of`."""

    @property
    def is_searched(self) -> bool:
        """Whether a search looks at it without being asked to."""
        return not (self.changes_results or self.is_extra)

    @abc.abstractmethod
    def options(self, choice: Choice, context: ChoiceContext) -> Iterator[Choice]:
        """Return a choice in all the variants that the aspect has for it, the plainest first."""
