"""Which arguments of an array program are cut, and along which dims: those with which the fewest bytes are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from autodist.graph._graph_def import itemsize, node_of, tensor_dtype, tensor_name
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import StepInput
from autodist.graph.layouts._base import Partial, Whole
from autodist.graph.layouts._batch_plan import BatchPlan, NoPlanError, size_bytes
from autodist.graph.layouts._exchanged import exchanged_in
from autodist.graph.layouts._plan import plan_batch
from autodist.graph.layouts._shapes_of import shapes_of
from autodist.graph.layouts._tiled_variables import TiledVariables

__all__ = ["ArgumentCuts", "Dims", "cut_arguments", "sent_bytes"]

Dims = tuple[tuple[int, ...], ...]
"""Per argument, the dims along which replicas have parts of it; none for one that all have whole."""

_SMALL = 8
"""An argument with fewer bytes than the largest one has by this factor comes whole to every replica."""
_MOST_TRIED = 81
"""Up to so many ways to cut the arguments, all are tried; else one argument after the other is cut better."""
_LATENCY_BYTES = 10_000
"""What an exchange costs, however small it is."""
_COMPUTING = 0.05
"""What it costs to compute a byte of a result, beside sending one."""
_WORTH_A_COPY = 0.9
"""A second part of an argument is given to replicas if it leaves less of the bytes than this."""


@dataclass(frozen=True)
class ArgumentCuts:
    """How the arguments of an array program are cut.

    Attributes:
        dims: Per argument, the dims along which replicas have parts of it.
        sent_bytes: What all hosts send each other in a call, the least that is possible for these parts.
        tried: What they would send for other dims, so far as these were tried.

    """

    dims: Dims
    sent_bytes: float
    tried: Mapping[Dims, float]

    @property
    def one_axis(self) -> tuple[float, float] | None:
        """The fewest and the most bytes for one dim of each argument that is cut; None where none was tried."""
        cut = [k for k, dims in enumerate(self.dims) if dims]
        found = [sent for dims, sent in self.tried.items() if all(len(dims[k]) == 1 for k in cut)]
        return (min(found), max(found)) if found else None


def cut_arguments(graph: TrainingGraph, parts: int, hosts: int) -> ArgumentCuts | None:
    """Find how to cut the arguments of an array program.

    What is large is cut, along any dim that the number of replicas divides. Everything else follows from that.

    Args:
        graph: The program, with the shapes of its arguments.
        parts: Number of replicas.
        hosts: Number of hosts.

    Returns:
        None if there is nothing to cut, or nothing would be computed in parts by it.

    Raises:
        NoPlanError: There is something in it that can't be shared, sent, or computed whole.

    """
    choices = [_choices(graph, given, parts) for given in graph.inputs]
    return _Search(graph, parts, hosts, choices).found() if any(dims != [()] for dims in choices) else None


def sent_bytes(graph: TrainingGraph, plan: BatchPlan, hosts: int) -> float:
    """Bytes that all hosts send each other in a call, the least that is possible for the exchanges of a plan."""
    return sum(one.sent_bytes(hosts) * hosts for one in exchanged_in(graph, plan))


def _choices(graph: TrainingGraph, given: StepInput, parts: int) -> list[tuple[int, ...]]:
    """The dims along which an argument can be cut; it stays whole where there is none, or if it is small."""
    largest = max(map(_bytes, graph.inputs))
    if _bytes(given) * _SMALL < largest or not graph.analysis.consumers.get(node_of(given.tensor)):
        return [()]
    return [(d,) for d, size in enumerate(given.shape or ()) if size and size % parts == 0 and size > 1] or [()]


def _bytes(given: StepInput) -> int:
    return prod(size or 0 for size in given.shape or ()) * itemsize(given.dtype)


class _Search:
    def __init__(
        self, graph: TrainingGraph, parts: int, hosts: int, choices: Sequence[Sequence[tuple[int, ...]]]
    ) -> None:
        self._graph, self._parts, self._hosts, self._choices = graph, parts, hosts, choices
        some = self._tiled(tuple(dims[0] for dims in choices))
        self._shapes = shapes_of(graph, some, by_rows=False)
        self._costs: dict[Dims, float] = {}
        self._sent: dict[Dims, float] = {}
        self._in_parts: set[Dims] = set()
        self._refused: NoPlanError | None = None

    def found(self) -> ArgumentCuts | None:
        """The best that there is."""
        if prod(map(len, self._choices)) <= _MOST_TRIED:
            best = min(product(*self._choices), key=self._cost)
        else:
            best = self._better(tuple(dims[0] for dims in self._choices))
        if not self._sent:
            assert self._refused is not None
            raise self._refused
        best = self._with_copies(best)
        return ArgumentCuts(best, self._sent[best], dict(self._sent)) if best in self._in_parts else None

    def _better(self, dims: Dims) -> Dims:
        """Cut one argument after the other better, until none can be."""
        while True:
            found = dims
            for k, choices in enumerate(self._choices):
                found = min(((*found[:k], choice, *found[k + 1 :]) for choice in choices), key=self._cost)
            if self._cost(found) >= self._cost(dims):
                return dims
            dims = found

    def _with_copies(self, dims: Dims) -> Dims:
        """Give replicas parts of an argument along two dims, where its uses want different ones (Spartan, 2.4)."""
        for k, given in enumerate(self._graph.inputs):
            readers = self._graph.analysis.consumers.get(node_of(given.tensor), ())
            for other in self._choices[k] if dims[k] and len(readers) > 1 else ():
                both = (*dims[:k], (*dims[k], *other), *dims[k + 1 :])
                if other != dims[k] and len(both[k]) == 2 and self._cost(both) < _WORTH_A_COPY * self._cost(dims):
                    dims = both
        return dims

    def _cost(self, dims: Dims) -> float:
        if dims not in self._costs:
            self._costs[dims] = self._found(dims)
        return self._costs[dims]

    def _found(self, dims: Dims) -> float:
        try:
            plan = plan_batch(self._graph.with_tiles(dims), self._tiled(dims), self._shapes)
        except NoPlanError as error:
            self._refused = error
            return float("inf")
        self._sent[dims] = sent_bytes(self._graph, plan, self._hosts)
        if any(not way.is_whole for name, ways in plan.ways.items() if plan.inputs[name] for way in ways):
            self._in_parts.add(dims)
        count = sum(one.travels for found in plan.exchanges.values() for one in found)
        return self._sent[dims] + _LATENCY_BYTES * count + _COMPUTING * sum(self._made(plan))

    def _made(self, plan: BatchPlan) -> Iterator[float]:
        """Bytes that a replica computes."""
        nodes = self._graph.analysis.nodes
        for name, ways in plan.ways.items():
            for way in ways if plan.inputs[name] else ():
                for k, layout in enumerate(way.outputs):
                    tensor = tensor_name(name, k)
                    made = size_bytes(self._shapes.shape(tensor) or (), tensor_dtype(nodes, tensor), 1)
                    yield made if isinstance(layout, Whole | Partial) else made / self._parts

    def _tiled(self, dims: Dims) -> TiledVariables:
        return TiledVariables.of_arguments(self._graph.with_tiles(dims), self._parts)
