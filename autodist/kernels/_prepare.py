"""Prepare: rewritings of G and S together, before any worker's share is cut out of them.

They turn what a strategy says about parts of variables and gradients into a G that has these parts, and into an S that
speaks of each part as a variable of its own. All that follows (replicas, servers, collectives) knows whole variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from autodist.graph import TrainingGraph
from autodist.kernels._factor import factor_gradients
from autodist.kernels._partition import partition
from autodist.strategies import Strategy

__all__ = ["prepare"]

Rewriting: TypeAlias = Callable[[TrainingGraph, Strategy], tuple[TrainingGraph, Strategy]]

_REWRITINGS: tuple[Rewriting, ...] = (partition, factor_gradients)


def prepare(graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
    """G and S in terms of the parts that the strategy makes; both are the arguments themselves if it makes none.

    Args:
        graph: G, as captured.
        strategy: S, verified.
    """
    for rewriting in _REWRITINGS:
        graph, strategy = rewriting(graph, strategy)
    return graph, strategy
