"""How a step fetches the values of its variables: what a parameter server has to send for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph._extent import Extent
from autodist.graph._graph_def import data_inputs, node_of, output_shape, split_tensor
from autodist.graph._marks import MARK

if TYPE_CHECKING:
    from autodist.graph._training_graph import Gradient, TrainingGraph, Variable

__all__ = ["Use", "variable_uses"]

_LOOKUPS = {"GatherV2": 1, "Gather": 1, "GatherNd": 1, "ResourceGather": 1, "ResourceGatherNd": 1}
"""Ops that take rows of a table, and which of their inputs says which rows."""
_QUESTIONS = frozenset({"Shape", "VariableShape", "VarIsInitializedOp"})
_RESHAPING = frozenset({"Reshape", "Identity", "Cast", "ExpandDims", "Squeeze", "StopGradient"})
_JOINING = frozenset({"ConcatV2", "Pack"})
_INT64 = 9  # TensorFlow's number of the type


@dataclass(frozen=True)
class Use:
    """What the forward and backward pass of one step take from a trainable variable, and give for it.

    Attributes:
        reads: How often the whole value is read; each read travels on its own, unless reads are packed.
        lookup_rows: Rows that lookups take for each example of the batch.
        gradient_rows: Rows of its sparse gradients for each example, 0 if all are dense.
        is_guess: Whether the numbers of rows are guesses: the graph does not tell.
        index_bytes: Size of one row number.
        later_reads: How many of the reads wait for something, like an update: packed reads do not include them.

    """

    reads: int = 1
    lookup_rows: float = 0.0
    gradient_rows: float = 0.0
    is_guess: bool = False
    index_bytes: int = 8
    later_reads: int = 0

    @classmethod
    def unknown(cls, variable: Variable) -> Use:
        """What is supposed where there is no graph to look at: one read, or one row per example."""
        return cls(0, 1.0, 1.0, True) if variable.is_sparse else cls()


def variable_uses(graph: TrainingGraph) -> dict[str, Use]:
    """The use of each trainable variable, by name.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> variable_uses(TrainingGraph(None, (), (), (), ()))
        {}

    """
    if graph.graph_def is None or not graph.trainable:
        return {v.name: Use.unknown(v) for v in graph.trainable}
    counter = _Counter(graph)
    return {v.name: counter.use(v) for v in graph.trainable}


class _Counter:
    """Walks back from gradients and outputs to what they are computed from."""

    def __init__(self, graph: TrainingGraph) -> None:
        self.graph = graph
        self.analysis = graph.analysis
        gradients = [t for v in graph.trainable for g in v.gradients for t in g.tensors]
        self.needed = self._ancestors([*gradients, *(output.tensor for output in graph.outputs)])
        self.consumers: dict[str, list[Any]] = {}
        for name in self.needed:
            for tensor in data_inputs(self.analysis.nodes[name]):
                self.consumers.setdefault(node_of(tensor), []).append(self.analysis.nodes[name])
        self.reads: dict[str, list[Any]] = {}
        for name, handles in self.analysis.reads.items():
            for handle in handles if name in self.needed else ():
                self.reads.setdefault(handle, []).append(self.analysis.nodes[name])

    def _ancestors(self, tensors: Iterable[str]) -> set[str]:
        found: set[str] = set()
        stack = [node_of(tensor) for tensor in tensors]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self.analysis.sources[name])
        return found

    def use(self, variable: Variable) -> Use:
        reads, later, lookups = 0, 0, []
        for node in self.reads.get(variable.handle, ()):
            if node.op in _LOOKUPS:
                lookups.append(node)
                continue
            others = [c for c in self.consumers.get(node.name, ()) if not self._is_answered_at_home(c, node.name)]
            is_read = bool(others) and node.op not in _QUESTIONS
            reads += is_read
            later += is_read and (node.op != "ReadVariableOp" or len(node.input) > 1)
            lookups += [c for c in self.consumers.get(node.name, ()) if c.op in _LOOKUPS and c not in others]
        looked_up = [self._rows(node.input[_LOOKUPS[node.op]]) for node in lookups]
        sparse = [gradient for gradient in variable.gradients if gradient.is_sparse]
        pushed = [self._rows(gradient.indices) for gradient in sparse if gradient.indices is not None]
        return Use(
            reads,
            sum(1.0 if rows is None else rows for rows in looked_up),
            sum(1.0 if rows is None else rows for rows in pushed),
            None in looked_up or None in pushed,
            self._index_bytes(sparse),
            later,
        )

    @staticmethod
    def _is_answered_at_home(consumer: Any, read: str) -> bool:
        """Whether an op runs where the variable is, so that the value does not travel to it."""
        on_it = node_of(data_inputs(consumer)[0]) == read
        return on_it and (consumer.op in _LOOKUPS or consumer.op in _QUESTIONS)

    def _index_bytes(self, gradients: list[Gradient]) -> int:
        types = [self.analysis.nodes[node_of(g.indices)].attr["T"].type for g in gradients if g.indices is not None]
        return 8 if not types or _INT64 in types else 4

    def _rows(self, tensor: str) -> float | None:
        """Row numbers in a tensor for each example, None if its shape does not tell."""
        name, index = split_tensor(tensor)
        node = self.analysis.nodes[name]
        if MARK in node.attr or node.op in _RESHAPING:
            inner = self._rows(node.input[0])
            return inner if inner is not None else self._per_example(tensor, output_shape(node, index))
        if node.op in _JOINING:
            parts = [self._rows(t) for t in data_inputs(node)[: node.attr["N"].i]]
            return None if None in parts else sum(part for part in parts if part is not None)
        return self._per_example(tensor, output_shape(node, index))

    def _per_example(self, tensor: str, shape: tuple[int | None, ...] | None) -> float | None:
        if not shape or None in shape[1:] or self.graph.analysis.extent(tensor) is not Extent.ROWS:
            return None
        return float(prod(size for size in shape[1:] if size is not None))
