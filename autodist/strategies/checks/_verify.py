"""Whether a strategy fits a graph and a cluster (thesis 7.4.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.carriers import FORMER, Carrier, installed_communicators
from autodist.registry import raise_mistakes
from autodist.strategies._problem import Problem, listed, sentences
from autodist.strategies._strategy import Strategy
from autodist.strategies.checks._check_types import require_types, wrong_types
from autodist.strategies.checks._checks import CHECKS

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec


def verify(
    strategy: Strategy,
    graph: TrainingGraph,
    spec: ResourceSpec,
    *,
    available_communicators: Collection[str] | None = None,
) -> tuple[Problem, ...]:
    """All reasons why the strategy does not fit; none if it does (thesis 7.4.1).

    Args:
        strategy: S.
        graph: G.
        spec: D.
        available_communicators: The communicators of the run's machines; by default those of this one. Give all of
            :func:`autodist.carriers.names` to plan for other machines.
    """
    return wrong_types(strategy) or _misfits(strategy, graph, spec, available_communicators)


def _misfits(
    strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec, available_communicators: Collection[str] | None
) -> tuple[Problem, ...]:
    """The problems of a strategy whose parts have the right types."""
    found = [problem for aspect in CHECKS for problem in aspect(strategy, graph, spec)]
    available = installed_communicators() if available_communicators is None else available_communicators
    return (*found, *missing_communicators(strategy, available))


def check(
    strategy: Strategy,
    graph: TrainingGraph,
    spec: ResourceSpec,
    *,
    available_communicators: Collection[str] | None = None,
) -> None:
    """Raise if the strategy does not fit; the arguments are those of :func:`verify`.

    Raises:
        StrategyError: Lists all problems; what holds for many variables is said once.
    """
    require_types(strategy)
    problems = _misfits(strategy, graph, spec, available_communicators)
    if not problems:
        return  # computing the strategy's id takes longer than some checks
    built = f" (built by {strategy.builder})" if strategy.builder else ""
    raise_mistakes(f"strategy {strategy.id}{built}", sentences(problems), hint=_way_out(strategy, graph, problems))


def _way_out(strategy: Strategy, graph: TrainingGraph, problems: Collection[Problem]) -> str | None:
    """How to go on with a strategy of another step, or with tiled variables that can't be cut; None for others."""
    if strategy.variables and {v.name for v in graph.variables}.isdisjoint(one.variable for one in strategy.variables):
        return "it is of another model, or of another step of the script: make one by `autodist search`, or take `auto`"
    if any(problem.aspect == "config" and problem.given in ("given", "missing") for problem in problems):
        return "it is for the variables of one training step: make another one by `autodist search`, or take `auto`"
    tiled = {name for name, one in strategy.synchronizers if one.tiled_for is not None}
    names = tiled & {problem.variable for problem in problems if problem.aspect == "partition"}
    if not names:
        return None
    return (
        f"leave {listed(names)} whole: by a rule `NAME=whole` before the others in `Tiled(dims=...)`, by `NAME: whole` "
        "in the `layouts` of a plan, or without an entry in a LayoutMap"
    )


def missing_communicators(strategy: Strategy, available: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each communicator that the strategy wants and the machine does not have.

    Another check reports communicators that no longer exist.
    """
    small, wanted = strategy.graph.communicator, {carrier for _, s in strategy.synchronizers if (carrier := s.carrier)}
    missing = set(strategy.carriers) - {*available, *FORMER}
    for name in sorted({small} & missing):
        fits = (lambda carrier: carrier.has_streams) if strategy.has_servers else (lambda carrier: True)
        yield _missing("communicator of the graph", name, fits, available)
    for name in sorted(wanted & missing):
        fits = (lambda carrier: carrier.fits_servers) if strategy.has_servers else (lambda carrier: True)
        yield _missing("communicator of the groups", name, fits, available)


def _missing(aspect: str, name: str, fits: Callable[[Carrier], bool], available: Collection[str]) -> Problem:
    usable = (f"{other!r}" for other in available if fits(carriers.get(other)))
    carrier = carriers.find(name)
    way_out = "" if carrier is None else f": {carrier.remedy}"
    return Problem(
        None, aspect, f"{name!r}", " or ".join(usable) or "none here", f"{name} is not installed here{way_out}"
    )
