"""Gradients that wait for a later step: which nodes run while they are kept, and when they are applied."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.errors import GraphError

if TYPE_CHECKING:
    from autodist.graph import GraphIndex


class Turn(enum.Enum):
    """A kind of run of a step, by its use of its own gradients, and of those of earlier steps."""

    KEEPS = "keeps its gradients, and applies none"
    BOTH = "keeps its gradients, and applies those of an earlier step"
    APPLIES = "applies those of an earlier step, and computes none"


@dataclass(frozen=True)
class Delay:
    """Gradients that are exchanged and applied some steps after their own.

    Attributes:
        steps: How many.
        takes: The nodes that take what an earlier step has kept.
        reads: Names of the variables that updates read only when they are applied, and do not change.
        always: Nodes with effects that run in every step that computes gradients, even if it applies none.
    """

    steps: int
    takes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    always: tuple[str, ...] = ()

    def late(self, index: GraphIndex) -> frozenset[str]:
        """The nodes that can only run once an earlier step's gradients are there.

        Raises:
            GraphError: A node that has to run in every step is among them.
        """
        found = set(self.takes)
        for name in index.order:
            if not found.isdisjoint(index.needs[name]):
                found.add(name)
        for name in found.intersection(self.always):
            raise GraphError(
                f"`{name}` has to run in every step, and waits for gradients of an earlier one",
                hint="please report this",
            )
        return frozenset(found)


class KeptGradients:
    """Counts the steps whose gradients are kept, and says what the next run does.

    All workers count alike, since all take the same steps.

    Args:
        delay: How long a step's gradients are kept; None for not at all.

    Example:
        >>> kept = KeptGradients(Delay(1, ("take",)))
        >>> turns = []
        >>> for _ in range(3):
        ...     turns.append(kept.turn().name)
        ...     kept.ran(kept.turn())
        >>> turns, kept.count
        (['KEEPS', 'BOTH', 'BOTH'], 1)
    """

    def __init__(self, delay: Delay | None) -> None:
        self._steps = 0 if delay is None else delay.steps
        self.count = 0
        """The number of steps whose gradients are still to be applied."""

    def turn(self) -> Turn:
        """The turn of the next step."""
        return Turn.KEEPS if self.count < self._steps else Turn.BOTH

    def ran(self, turn: Turn) -> None:
        """Note what a run has done."""
        self.count += {Turn.KEEPS: 1, Turn.BOTH: 0, Turn.APPLIES: -1}[turn]


def effects_in(turn: Turn, effects: Iterable[str], late: frozenset[str]) -> tuple[str, ...]:
    """The nodes with effects that run.

    Args:
        turn: What is done with gradients.
        effects: All of a step.
        late: Those that can only run once an earlier step's gradients are there.
    """
    if turn is Turn.BOTH:
        return tuple(effects)
    return tuple(effect for effect in effects if (effect in late) is (turn is Turn.APPLIES))
