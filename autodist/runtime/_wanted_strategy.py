"""Who says which strategy a step has: a LayoutMap of the program, the trials of first steps, or the run."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from autodist.runtime._keras_distribution import tiling_of_keras
from autodist.strategies import Strategy, StrategyLike, get

if TYPE_CHECKING:
    from autodist.graph import CapturedStep
    from autodist.resource_spec import ResourceSpec

_LOG = logging.getLogger("autodist")


def wanted_for(
    captured: CapturedStep,
    spec: ResourceSpec,
    *,
    given: StrategyLike,
    tried: Strategy | None,
    earlier: Collection[Strategy],
) -> StrategyLike:
    """Return what makes the strategy of a training step.

    A strategy is for the variables of one step. Where a script has a second one with variables of its own, as a GAN
    has, `auto` chooses for that, over the same carriers.

    Args:
        captured: The step.
        spec: The cluster.
        given: What the run or the script gives.
        tried: The strategy that is tried in the first step, if several are.
        earlier: The strategies of the training steps before.
    """
    by_layouts = tiling_of_keras(captured.graph, spec)
    if by_layouts is not None:
        return by_layouts
    if tried is not None and (not earlier or _is_of(tried, captured)):
        return tried
    found = get(given)
    if not earlier or not isinstance(found, Strategy) or _is_of(found, captured):
        return given
    _LOG.info("the strategy that is given has no variable of step %d: `auto` chooses for that step", len(earlier))
    over = " ".join(found.carriers)
    return get(f"auto(over={over!r})" if over else "auto")


def _is_of(strategy: Strategy, captured: CapturedStep) -> bool:
    """Whether a strategy says anything of a step's variables."""
    return not {v.name for v in captured.graph.trainable}.isdisjoint(config.variable for config in strategy.variables)
