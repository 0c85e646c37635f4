"""The part of a step with tiled variables that each replica computes whole, from gathered inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.strategies._tile_costs import tiled_dims, work_of

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.strategies._strategy import Strategy


_MOST_NAMED = 3
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class WholeWork:
    """Work of a step that is not shared.

    Attributes:
        share: The fraction of the step's work that it is, estimated from shapes.
        operators: The operators that are a hundredth of the step or more, the costliest first: the node, what it does,
            and the user's line, which is empty where it is not known.

    Example:
        >>> print(WholeWork(0.42, (("head/inverse", "MatrixInverse", "train.py:7"),)))
        42 % of the step's work, most of it `head/inverse` (MatrixInverse at train.py:7)
    """

    share: float
    operators: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        named = [f"`{name}` ({op}{f' at {line}' if line else ''})" for name, op, line in self.operators]
        return f"{100 * self.share:.2g} % of the step's work{', most of it ' if named else ''}{', '.join(named)}"


def whole_work(strategy: Strategy, graph: TrainingGraph, batch_size: int) -> WholeWork | None:
    """The work that each replica does whole; None without tiles, or for a step that is only described.

    Args:
        strategy: S.
        graph: G.
        batch_size: Examples in the global batch.
    """
    dims, groups = tiled_dims(strategy), strategy.groups_of_replicas
    if not dims or graph.graph_def is None:
        return None
    from autodist.graph.layouts import computed_whole

    examples = max(1, batch_size // groups)
    whole = computed_whole(graph, dims, len(strategy.graph.replicas) // groups, examples)
    work = work_of(graph, max(1, batch_size))
    total = sum(work.values())
    costs = sorted(((work.get(name, 0.0) / groups, name) for name in whole), reverse=True)
    if not total:
        return None
    nodes = graph.analysis.nodes
    named = [name for cost, name in costs[:_MOST_NAMED] if cost >= _LEAST_SHARE * total and name in nodes]
    told = tuple((name, nodes[name].op, graph.lines.get(name, "")) for name in named)
    return WholeWork(sum(cost for cost, _ in costs) / total, told)
