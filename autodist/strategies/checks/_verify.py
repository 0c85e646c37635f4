"""Whether a strategy fits a graph and a cluster (thesis 7.4.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.carriers import installed_communicators
from autodist.registry import raise_mistakes
from autodist.strategies._problem import Problem, sentences
from autodist.strategies._strategy import Strategy
from autodist.strategies.checks._check_types import require_types, wrong_types
from autodist.strategies.checks._checks import CHECKS

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

__all__ = ["check", "verify"]


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
        available_communicators: What the machines of the run have; by default what this one has. Give all of
            :func:`autodist.carriers.names` to plan for other machines.

    """
    if ill_typed := wrong_types(strategy):
        return ill_typed
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
    problems = verify(strategy, graph, spec, available_communicators=available_communicators)
    built = f" (built by {strategy.builder})" if strategy.builder else ""
    raise_mistakes(f"strategy {strategy.id}{built}", sentences(problems))


def missing_communicators(strategy: Strategy, available: Collection[str]) -> Iterator[Problem]:
    """Yield a problem per communicator that the strategy wants and the machine has not.

    What carries small state alone is always there.
    """
    usable = [name for name in available if carriers.get(name).fits_servers or not strategy.has_servers]
    always = carriers.names_of(lambda carrier: not carrier.carries_gradients and carrier.is_available())
    wanted = {synchronizer.carrier for _, synchronizer in strategy.synchronizers if synchronizer.carrier is not None}
    for name in sorted({strategy.graph.communicator} - {*available, *always}):
        yield _missing("communicator of the graph", name, list(dict.fromkeys([*usable, *always])))
    for name in sorted(wanted - {*available, *always}):
        yield _missing("communicator of the groups", name, usable)


def _missing(aspect: str, name: str, usable: list[str]) -> Problem:
    allowed = " or ".join(f"{other!r}" for other in usable) or "no groups beside parameter servers"
    return Problem(None, aspect, f"{name!r}", allowed, f"{name} is not installed here")
