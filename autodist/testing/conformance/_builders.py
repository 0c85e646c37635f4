"""The duties of a strategy builder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autodist import carriers
from autodist.errors import StrategyError
from autodist.graph import TrainingGraph
from autodist.registry import instantiate, split_call
from autodist.resource_spec import ResourceSpec
from autodist.strategies import Strategy, StrategyBuilder, verify
from autodist.testing.conformance._contract import attempted, broken_names, raise_broken
from autodist.testing.conformance._samples import sample_graphs, sample_specs


def check_builder(
    builder: StrategyBuilder,
    *,
    graphs: Mapping[str, TrainingGraph] | None = None,
    specs: Mapping[str, ResourceSpec] | None = None,
) -> None:
    """Check that a builder keeps its contract.

    It is a frozen dataclass whose text reads back; its strategies pass :func:`~autodist.strategies.verify`, are the
    same each time, and survive JSON. Where it can't build one it raises a StrategyError.

    Args:
        builder: The candidate, with any parameters.
        graphs: Graphs to try it on, by name; by default :func:`sample_graphs`.
        specs: Clusters, by name; by default :func:`sample_specs`.

    Raises:
        ConformanceFailed: Lists what it does not keep, each with a graph and a cluster that show it.
    """
    broken = list(broken_names(builder, lambda text: instantiate(type(builder), split_call(text)[1])))
    shown: set[str] = set()
    for graph_name, graph in (sample_graphs() if graphs is None else graphs).items():
        for spec_name, spec in (sample_specs() if specs is None else specs).items():
            for problem in _broken_on(builder, graph, spec):
                kind = problem.partition(" is ")[0]  # of the same aspect, one value will do
                broken += [] if kind in shown else [f"{problem} (a graph with {graph_name}, on {spec_name})"]
                shown.add(kind)
    raise_broken(builder, broken)


def _broken_on(builder: StrategyBuilder, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[str]:
    try:
        strategy: object = builder.build(graph, spec)
    except StrategyError:
        return  # a reason, which users are shown
    except Exception as error:  # whatever another package's code raises
        yield f"`build` raises {type(error).__name__} ({error}), allowed: a StrategyError with a reason"
        return
    if not isinstance(strategy, Strategy):
        yield f"`build` returns a {type(strategy).__name__}, expected a Strategy"
        return
    for problem in verify(strategy, graph, spec, available_communicators=carriers.names()):
        yield f"its strategy does not verify: {problem.statement}"
    if attempted(lambda: builder.build(graph, spec))[0] != strategy:
        yield "its strategy is another one each time, so workers would not agree"
    if attempted(lambda: Strategy.from_json(strategy.to_json()))[0] != strategy:
        yield "its strategy does not survive JSON: lists instead of tuples, perhaps"
