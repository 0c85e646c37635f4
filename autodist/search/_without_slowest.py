"""Whether training would be faster without the host whose link is the slowest: nobody but the user can leave it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.errors import AutoDistError
from autodist.search._clusters import cluster_of
from autodist.simulator import Domain
from autodist.strategies import check, retargeted_to

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec
    from autodist.simulator import Simulator
    from autodist.strategies import Strategy

_UNEVEN = 0.5
"""Links are compared if the slowest has at most this share of the fastest one's bandwidth."""
_WORTH_SAYING = 0.8
"""Something is said if a step takes at most this share of its time without the host."""


def without_slowest(strategy: Strategy, domain: Domain, simulator: Simulator) -> str:
    """Say in words how much faster a step is expected to be without the host whose link is the slowest.

    Args:
        strategy: What was chosen for all hosts.
        domain: The graph and the cluster.
        simulator: A simulator whose scores are seconds.

    Returns:
        An empty text if there is no such host, or little to gain.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import Host, ResourceSpec
        >>> from autodist.simulator import EventSimulator
        >>> from autodist.strategies import PS
        >>> variable = Variable("w", "w", (1000, 2500), "float32", Role.TRAINABLE, (Gradient("w"),))
        >>> graph = TrainingGraph(None, (variable,), (), (), ())
        >>> spec = ResourceSpec((Host("a", "a"), Host("b", "b"), Host("c", "c", bandwidth_gbps=0.1)))
        >>> chosen = PS().build(graph, spec)
        >>> print(without_slowest(chosen, Domain.of(graph, spec), EventSimulator()))
        ; without `c`, whose link has 0.1 Gbit/s, a step should take 174 instead of 1,488 ms: leave it out
    """
    slowest = _slowest(domain.spec)
    if slowest is None:
        return ""
    fewer = cluster_of(domain.spec, [host.name for host in domain.spec.hosts if host.name != slowest])
    try:
        there = retargeted_to(strategy, domain.graph, fewer)
        check(there, domain.graph, fewer)
    except AutoDistError:  # fewer parts may be too large, or a carrier has another rule
        return ""
    now_s = float(simulator.predict([strategy], domain)[0])
    then_s = float(simulator.predict([there], Domain.of(domain.graph, fewer, profile=domain.profile))[0])
    if then_s > _WORTH_SAYING * now_s:
        return ""
    gbps = domain.spec.hosts[domain.spec.rank_of(slowest)].bandwidth_gbps
    times = f"{1e3 * then_s:,.0f} instead of {1e3 * now_s:,.0f} ms"
    return f"; without `{slowest}`, whose link has {gbps:.3g} Gbit/s, a step should take {times}: leave it out"


def _slowest(spec: ResourceSpec) -> str | None:
    """The host with the slowest interface, if it is alone in that and not the chief; None if links are alike."""
    if len(spec.hosts) < 3 or spec.evenness > _UNEVEN:
        return None
    first, second, *_ = sorted(spec.hosts, key=lambda host: host.bandwidth_gbps)
    is_alone = first.bandwidth_gbps <= _UNEVEN * second.bandwidth_gbps
    return first.name if is_alone and spec.rank_of(first.name) > 0 else None
