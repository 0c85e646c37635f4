"""Whether a strategy would be faster with its largest variables tiled, or fit into the memory of hosts only so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.errors import AutoDistError, SpaceEmpty, StrategyError
from autodist.search._memory_filter import MemoryFilter
from autodist.search.tilings import Tiled, tiled_cuts, with_tiles
from autodist.strategies import AllReduce, Strategy, check, tile_costs

if TYPE_CHECKING:
    from autodist.simulator import Domain, Simulator


_EQUAL = 0.1
"""Strategies whose expected times differ by less than this fraction count as equal. The one whose computation waits
least often is taken: each wait is as long as the slowest host takes, which can't be predicted."""

_MOST_NODES = 20_000
"""The size of a step up to which tiles are looked for: planning what they exchange takes 12 s for 32,000 nodes."""

_LEAST_GAIN = 1 / 6
"""The fraction of a step's time that tiles must be expected to save: where 17 to 20 % were expected, steps took 11 to
31 % less, and where 16 % were, 5 % more."""


def with_tiles_instead(
    chosen: Strategy, domain: Domain, simulator: Simulator, margin: float, *, may_group: bool
) -> Strategy | None:
    """Return a strategy with tiles that is expected to be faster than a chosen one; None if there is none.

    Args:
        chosen: A strategy.
        domain: The graph and the cluster that it is for.
        simulator: A simulator whose scores are seconds.
        margin: The fraction by which it must be faster apart from the computation, whose time is the same.
        may_group: Whether replicas may fall into groups.
    """
    if not can_tile_steps(domain) or len(domain.graph.graph_def.node) > _MOST_NODES:
        return None
    chosen_s = float(simulator.predict([chosen], domain)[0])
    compute_s = min(domain.compute_s, chosen_s)
    longest_s = min(compute_s + (1 - margin) * (chosen_s - compute_s), (1 - _LEAST_GAIN) * chosen_s)
    if compute_s > longest_s:
        return None  # computing alone takes too long
    found = _fitting(chosen, domain, may_group=may_group)
    if not found:
        return None
    expected_s = simulator.predict(found, domain)
    if expected_s.min() >= longest_s:
        return None
    ordered = sorted(zip(expected_s.tolist(), found, strict=True), key=lambda pair: pair[0])
    near = [strategy for time_s, strategy in ordered if time_s <= (1 + _EQUAL) * ordered[0][0]]
    # `near` is in the order of the expected times: of equally many waits, the fastest counts.
    return min(near, key=lambda strategy: tile_costs(strategy, domain.graph, domain.batch_size).waits)


def tiled_to_fit(domain: Domain) -> tuple[dict[str, Strategy], str]:
    """By name, the strategy that tiles what does not fit into the hosts' memory; or none, and why not."""
    if not can_tile_steps(domain):
        return {}, ""
    by_device = float((domain.memory_bytes / domain.replicas).min()) / 1e9
    builder = Tiled(memory_gb=by_device if np.isfinite(by_device) else None)
    try:
        strategy = builder.build(domain.graph, domain.spec)
        check(strategy, domain.graph, domain.spec)
    except AutoDistError as error:  # it does not fit even with tiles, or nothing is known of the step
        return {}, error.message if isinstance(error, SpaceEmpty) else ""
    why_not = MemoryFilter(domain).why_not(strategy)
    return ({}, f"with tiles, {why_not}") if why_not else ({str(builder): strategy}, "")


def can_tile_steps(domain: Domain) -> bool:
    """Whether workers may each hold parts of weights, and what they would exchange is known."""
    graph = domain.graph
    is_known = graph.graph_def is not None and graph.batch_size is not None and not graph.shares_examples
    return is_known and len(domain.spec.hosts) > 1 and bool((domain.replicas > 0).all())


def _fitting(chosen: Strategy, domain: Domain, *, may_group: bool) -> list[Strategy]:
    room, found, graph, spec = MemoryFilter(domain), [], domain.graph, domain.spec
    try:
        # What was chosen for the largest variables may not be the best for those that are left without them.
        plain = AllReduce(communicator=chosen.graph.communicator).build(graph, spec)
        cuts = tiled_cuts(graph, spec, may_group=may_group)
        for strategy in with_tiles(graph, spec, [chosen, plain], cuts):
            check(strategy, graph, spec)
            if not room.why_not(strategy):
                found.append(strategy)
    except StrategyError:  # nothing is known of the step, or the chosen strategy does not work with tiles
        return found
    return found
