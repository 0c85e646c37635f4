"""Which gradients are better taken apart: of a table that is looked up in and multiplied with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autodist.strategies._problem import Problem, listed
from autodist.strategies._strategy import Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec

__all__ = ["check_apart", "rows_apart"]


def rows_apart(
    graph: TrainingGraph, configs: Iterable[VariableConfig], batch_size: int | None = None
) -> tuple[str, ...]:
    """The variables of whose gradients rows are better sent apart: a batch has fewer rows than the table.

    Encoders take gradients as they are.

    Args:
        graph: G.
        configs: Of its variables.
        batch_size: Examples in the global batch; by default the graph's own. Without one, nothing is taken apart.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> rows_apart(TrainingGraph(None, (), (), (), ()), ())
        ()

    """
    examples = batch_size or graph.batch_size or 0
    known = {variable.name: variable for variable in graph.trainable}
    return tuple(
        config.variable
        for config in configs
        if config.variable in known and not _is_encoded(config) and _has_few(graph, known[config.variable], examples)
    )


def _is_encoded(config: VariableConfig) -> bool:
    return config.is_factored or any(shard.compressor is not None for shard in config.shards)


def _has_few(graph: TrainingGraph, variable: Variable, examples: int) -> bool:
    return 0 < graph.uses[variable.name].mixed_rows * examples < variable.shape[0]


def check_apart(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield the variables whose gradients a strategy wants to take apart, and that can't be."""
    if not strategy.graph.apart:
        return
    mixed = [variable.name for variable in graph.trainable if graph.uses[variable.name].mixed_rows]
    allowed = listed(mixed) if mixed else "none"
    encoded = {config.variable for config in strategy.variables if _is_encoded(config)}
    for name in strategy.graph.apart:
        if name not in mixed:
            reason = "its gradient is no sum of rows that were looked up and of something dense"
            yield Problem(None, "`apart` of the graph", repr(name), allowed, reason)
        elif name in encoded:
            reason = "an encoder takes the gradient as a whole"
            yield Problem(name, "compressor", "an encoder", "null, or leave the variable out of `apart`", reason)
