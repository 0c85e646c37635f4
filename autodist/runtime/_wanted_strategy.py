"""Who says which strategy a step has: a LayoutMap of the program, the trials of first steps, or the run."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autodist.runtime._keras_distribution import tiling_of_keras
from autodist.strategies import Strategy, StrategyLike, fitting, for_step

if TYPE_CHECKING:
    from autodist.graph import CapturedStep
    from autodist.resource_spec import ResourceSpec


def wanted_for(
    captured: CapturedStep,
    spec: ResourceSpec,
    *,
    given: StrategyLike,
    tried: Strategy | None,
    earlier: Collection[Strategy],
    is_restarted: bool,
) -> StrategyLike:
    """Return what makes the strategy of a training step.

    A strategy that is tried is for the first step, and for those that train the same variables.

    Args:
        captured: The step.
        spec: The cluster.
        given: What the run or the script gives.
        tried: The strategy that is tried in the first step, if several are.
        earlier: The strategies of the training steps before.
        is_restarted: Whether all workers were started again: then other steps may have come before.
    """
    by_layouts = tiling_of_keras(captured.graph, spec)
    if by_layouts is not None:
        return by_layouts
    trained = {variable.name for variable in captured.graph.trainable}
    if tried is not None and (not earlier or trained == {config.variable for config in tried.variables}):
        return tried
    is_first = not earlier and not is_restarted
    return for_step(fitting(given, spec), trained, len(earlier), is_first=is_first)
