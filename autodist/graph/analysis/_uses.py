"""How a step fetches the values of its variables: what a parameter server has to send for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph._graph_def import data_inputs, node_of, output_shape, split_tensor
from autodist.graph.analysis._batch_scaling import BatchScaling
from autodist.graph.annotations import MARK
from autodist.graph.operators import Kind, Linearity, Passes, is_kind, meaning, passes_on

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph
    from autodist.graph._variables import Gradient, Variable

_INT64 = 9  # TensorFlow's number of the type


@dataclass(frozen=True)
class VariableUse:
    """The values that a step's forward and backward pass take from a trainable variable, and give for it.

    Attributes:
        reads: How often the whole value is read; each read travels on its own, unless reads are packed.
        lookup_rows: Rows that lookups take for each example of the batch.
        gradient_rows: Rows of its sparse gradients for each example, 0 if all are dense.
        is_guess: Whether the numbers of rows are guesses: the graph does not tell.
        index_bytes: Size of one row number.
        later_reads: How many of the reads wait for something, like an update: packed reads do not include them.
        fixed_lookup_rows: Rows that lookups take besides in each replica, whatever its part of the batch: the classes
            that a sampled softmax draws.
        fixed_gradient_rows: Rows of its sparse gradients of that kind.
    """

    reads: int = 1
    lookup_rows: float = 0.0
    gradient_rows: float = 0.0
    is_guess: bool = False
    index_bytes: int = 8
    later_reads: int = 0
    fixed_lookup_rows: float = 0.0
    fixed_gradient_rows: float = 0.0

    @classmethod
    def unknown(cls, variable: Variable) -> VariableUse:
        """The use that is assumed without a graph: one read, or one row per example."""
        return cls(0, 1.0, 1.0, True) if variable.is_sparse else cls()


def variable_uses(graph: TrainingGraph) -> dict[str, VariableUse]:
    """The use of each trainable variable, by name.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> variable_uses(TrainingGraph(None, (), (), (), ()))
        {}
    """
    if graph.graph_def is None or not graph.trainable:
        return {v.name: VariableUse.unknown(v) for v in graph.trainable}
    counter = _Counter(graph)
    return {v.name: counter.use(v) for v in graph.trainable}


class _Counter:
    """Walks back from gradients and outputs to what they are computed from."""

    def __init__(self, graph: TrainingGraph) -> None:
        self.graph = graph
        self.analysis = graph.analysis
        gradients = [t for v in graph.trainable for t in v.gradient_tensors]
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

    def use(self, variable: Variable) -> VariableUse:
        reads, later, lookups = 0, 0, []
        for node in self.reads.get(variable.handle, ()):
            if meaning(node.op).lookup is not None:
                lookups.append(node)
                continue
            others = [c for c in self.consumers.get(node.name, ()) if not self._is_answered_at_home(c, node.name)]
            is_read = bool(others) and not is_kind(node.op, Kind.SHAPE)
            reads += is_read
            later += is_read and (node.op != "ReadVariableOp" or len(node.input) > 1)
            lookups += [c for c in self.consumers.get(node.name, ()) if meaning(c.op).lookup and c not in others]
        sparse = [gradient for gradient in variable.gradients if gradient.is_sparse]
        looked_up = _sum(self._rows(_row_numbers(node)) for node in lookups)
        pushed = _sum(self._rows(gradient.indices) for gradient in sparse if gradient.indices is not None)
        return VariableUse(
            reads,
            looked_up.by_example,
            pushed.by_example,
            looked_up.is_guess or pushed.is_guess,
            self._index_bytes(sparse),
            later,
            looked_up.by_replica,
            pushed.by_replica,
        )

    @staticmethod
    def _is_answered_at_home(consumer: Any, read: str) -> bool:
        """Whether an op runs where the variable is, so that the value does not travel to it."""
        on_it = node_of(data_inputs(consumer)[0]) == read
        return on_it and (meaning(consumer.op).lookup is not None or is_kind(consumer.op, Kind.SHAPE))

    def _index_bytes(self, gradients: list[Gradient]) -> int:
        types = [self.analysis.nodes[node_of(g.indices)].attr["T"].type for g in gradients if g.indices is not None]
        return 8 if not types or _INT64 in types else 4

    def _rows(self, tensor: str) -> _Rows:
        """Row numbers in a tensor, as far as shapes tell."""
        name, index = split_tensor(tensor)
        node = self.analysis.nodes[name]
        if is_kind(node.op, Kind.MOVING) and meaning(node.op).linearity is Linearity.JOINT:  # behind each other
            return _sum(self._rows(part) for part in data_inputs(node)[: node.attr["N"].i])
        if MARK in node.attr or passes_on(node.op, Passes.SAME, Passes.FORM, Passes.TYPE):
            inner = self._rows(node.input[0])
            if not inner.is_guess:
                return inner
        return self._of_shape(tensor, output_shape(node, index))

    def _of_shape(self, tensor: str, shape: tuple[int | None, ...] | None) -> _Rows:
        if shape is None or None in shape[1:]:
            return _UNKNOWN
        inner = float(prod(size for size in shape[1:] if size is not None))
        if shape and self.graph.analysis.scaling(tensor) is BatchScaling.ROWS:
            return _Rows(by_example=inner)
        size = shape[0] if shape else 1
        return _UNKNOWN if size is None else _Rows(by_replica=size * inner)


def _row_numbers(node: Any) -> str:
    """Which rows a lookup takes."""
    lookup = meaning(node.op).lookup
    assert lookup is not None
    return str(node.input[lookup.rows])


@dataclass(frozen=True)
class _Rows:
    """How many rows of a table, for each example and besides in each replica."""

    by_example: float = 0.0
    by_replica: float = 0.0
    is_guess: bool = False


_UNKNOWN = _Rows(by_example=1.0, is_guess=True)


def _sum(several: Iterable[_Rows]) -> _Rows:
    parts = list(several)
    by_example, by_replica = sum(part.by_example for part in parts), sum(part.by_replica for part in parts)
    return _Rows(by_example, by_replica, any(part.is_guess for part in parts))
