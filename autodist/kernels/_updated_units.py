"""Units: variables that are updated together, and the nodes that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autodist.errors import StrategyError
from autodist.graph import StepAnalysis, Variable


@dataclass(frozen=True)
class UpdatedUnit:
    """Variables that are updated together, and their slots.

    Attributes:
        name: The name of the first variable, in alphabetical order.
        variables: Names of the trainable variables.
        slots: Names of the other variables that are written from their gradients.
    """

    name: str
    variables: tuple[str, ...]
    slots: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """Variables and slots."""
        return (*self.variables, *self.slots)


def units_of_handles(units: Iterable[UpdatedUnit], variables: Iterable[Variable]) -> dict[str, str]:
    """By handle of a variable or slot, its unit."""
    unit_of = {name: unit.name for unit in units for name in unit.members}
    return {v.handle: unit_of[v.name] for v in variables if v.name in unit_of}


def writes_of(analysis: StepAnalysis, unit_of_handle: Mapping[str, str]) -> dict[str, str]:
    """By node that changes a unit's variable or slot, the unit.

    Raises:
        StrategyError: A node changes what lives at several destinations.
    """
    found: dict[str, str] = {}
    for name, write in analysis.writes.items():
        units = list(dict.fromkeys(unit_of_handle[handle] for handle in write.handles if handle in unit_of_handle))
        if len(units) > 1:
            raise StrategyError(
                f"op `{name}` ({analysis.nodes[name].op}) changes variables of several servers' updates: "
                + " and ".join(f"`{unit}`" for unit in units),
                hint="change them in ops of their own, outside of loops and branches; or use AllReduce",
            )
        if units:
            found[name] = units[0]
    return found
