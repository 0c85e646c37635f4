"""Finds the sets of variables that must live in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable


def coupled_units(graph: TrainingGraph) -> tuple[tuple[Variable, ...], ...]:
    """Return the trainable variables in sets that need one and the same home; most are alone."""
    units: dict[frozenset[str], list[Variable]] = {}
    for variable in graph.trainable:
        units.setdefault(frozenset((*variable.coupled, variable.name)), []).append(variable)
    return tuple(tuple(unit) for unit in units.values())
