"""Which arguments of an array program are cut, and along which dims: those with which the fewest bytes are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from autodist.graph._graph_def import itemsize, node_of, output_types, tensor_dtype, tensor_name
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import StepInput
from autodist.graph.layouts._base import Partial, Whole
from autodist.graph.layouts._batch_plan import BatchPlan, NoPlanError, size_bytes
from autodist.graph.layouts._exchanged import exchanged_in
from autodist.graph.layouts._plan import plan_batch
from autodist.graph.layouts._plan_costs import COMPUTING, LATENCY_BYTES
from autodist.graph.layouts._shapes_of import shapes_of
from autodist.graph.layouts._tiled_variables import TiledVariables

Dims = tuple[tuple[int, ...], ...]
"""Per argument, the dims along which replicas have parts of it; none for one that all have whole."""

_SMALL = 8
"""An argument that is smaller in bytes than the largest one by this factor is whole on every replica."""
_MOST_TRIED = 81
"""Up to this many ways to cut the arguments, all are tried; else one argument after the other is improved."""
_FEWEST_TRIED, _MOST_PLANNED = 4, 40_000
"""In large programs fewer ways are tried, so that this many nodes are planned in all, in some ten seconds."""
_WORTH_A_COPY = 0.9
"""Replicas get a second part of an argument if the cost falls below this fraction of the one without it."""


@dataclass(frozen=True)
class ArgumentLayouts:
    """How the arguments of an array program are cut.

    Attributes:
        dims: Per argument, the dims along which replicas have parts of it.
        sent_bytes: The least number of bytes that all hosts send each other in a call with these parts.
        exchanges: How often replicas exchange something in a call.
        tried: The same for the other dims that were tried.
    """

    dims: Dims
    sent_bytes: float
    exchanges: int
    tried: Mapping[Dims, float]

    @property
    def one_axis(self) -> tuple[float, float] | None:
        """The fewest and the most bytes for one dim of each argument that is cut; None where none was tried."""
        cut = [k for k, dims in enumerate(self.dims) if dims]
        found = [sent for dims, sent in self.tried.items() if all(len(dims[k]) == 1 for k in cut)]
        return (min(found), max(found)) if found else None


def cut_arguments(
    graph: TrainingGraph, parts: int, hosts: int, given: Sequence[int | None] | None = None
) -> ArgumentLayouts | None:
    """Find how to cut the arguments of an array program.

    What is large is cut, along any dim that is at least as long as there are replicas. The rest follows from that.

    Args:
        graph: The program, with the shapes of its arguments.
        parts: Number of replicas.
        hosts: Number of hosts.
        given: Per argument, the dim that is to be cut, None for whole; None to find out.

    Returns:
        None if there is nothing to cut, or nothing would be computed in parts by it.

    Raises:
        NoPlanError: Some tensor can't be shared, sent, or computed whole.
    """
    if given is None:
        choices = [_choices(graph, argument, parts) for argument in graph.inputs]
    else:
        choices = [[() if dim is None else (dim,)] for dim in given]
    return _Search(graph, parts, hosts, choices).found() if any(dims != [()] for dims in choices) else None


def _is_in_parts(plan: BatchPlan) -> bool:
    """Whether replicas compute anything of their parts alone."""
    return any(not way.is_whole for name, ways in plan.ways.items() if plan.inputs[name] for way in ways)


def sent_bytes(graph: TrainingGraph, plan: BatchPlan, hosts: int) -> float:
    """Bytes that all hosts send each other in a call, the least that is possible for the exchanges of a plan."""
    return sum(one.sent_bytes(hosts) * hosts for one in exchanged_in(graph, plan))


def _choices(graph: TrainingGraph, given: StepInput, parts: int) -> list[tuple[int, ...]]:
    """The dims along which an argument can be cut; it stays whole where there is none, or if it is small."""
    largest = max(map(_bytes, graph.inputs))
    if _bytes(given) * _SMALL < largest or not graph.analysis.consumers.get(node_of(given.tensor)):
        return [()]
    return [(d,) for d, size in enumerate(given.shape or ()) if size and size >= parts and size > 1] or [()]


def _bytes(given: StepInput) -> int:
    return prod(size or 0 for size in given.shape or ()) * itemsize(given.dtype)


class _Search:
    def __init__(
        self, graph: TrainingGraph, parts: int, hosts: int, choices: Sequence[Sequence[tuple[int, ...]]]
    ) -> None:
        self._graph, self._parts, self._hosts, self._choices = graph, parts, hosts, choices
        some = self._tiled(tuple(dims[0] for dims in choices))
        self._shapes = shapes_of(graph, some, by_rows=False)
        self._most_tried = min(_MOST_TRIED, max(_FEWEST_TRIED, _MOST_PLANNED // len(graph.analysis.nodes)))
        self._costs: dict[Dims, float] = {}
        self._sent: dict[Dims, float] = {}
        self._exchanges: dict[Dims, int] = {}
        self._in_parts: set[Dims] = set()
        self._refused: NoPlanError | None = None

    def found(self) -> ArgumentLayouts | None:
        """The best way."""
        if prod(map(len, self._choices)) <= self._most_tried:
            best = min(product(*self._choices), key=self._cost)
        else:
            best = self._better(tuple(dims[0] for dims in self._choices))
        if not self._sent:
            assert self._refused is not None
            raise self._refused
        best = self._with_copies(best)
        if best not in self._in_parts:
            return None
        return ArgumentLayouts(best, self._sent[best], self._exchanges[best], dict(self._sent))

    def _better(self, dims: Dims) -> Dims:
        """Improve the cut of one argument after the other, until none can be improved."""
        while True:
            found = dims
            for k, choices in enumerate(self._choices):
                found = min(((*found[:k], choice, *found[k + 1 :]) for choice in choices), key=self._cost)
            if self._cost(found) >= self._cost(dims):
                return dims
            dims = found

    def _with_copies(self, dims: Dims) -> Dims:
        """Give replicas parts of arguments along two dims, where their uses want different ones (Spartan, 2.4)."""
        copied = list(self._copied(dims))
        if len(self._costs) + len(copied) > 2 * self._most_tried:
            return dims
        found = min((dims, *copied), key=self._cost)
        return found if self._cost(found) < _WORTH_A_COPY * self._cost(dims) else dims

    def _copied(self, dims: Dims) -> Iterator[Dims]:
        """Ways to cut one of the arguments, or all, along two dims; most of their uses get the first dim."""
        several = [k for k, found in enumerate(self._choices) if len(found) > 1 and self._is_used_twice(k)]
        pairs = {k: list(permutations((d for (d,) in self._choices[k]), 2)) for k in several}
        for places in ([k] for k in several):
            yield from (tuple(pair if k in places else one for k, one in enumerate(dims)) for pair in pairs[places[0]])
        for pair in pairs[several[0]] if len(several) > 1 else ():
            yield tuple(pair if k in several and pair in pairs[k] else one for k, one in enumerate(dims))

    def _is_used_twice(self, place: int) -> bool:
        return len(self._graph.analysis.consumers.get(node_of(self._graph.inputs[place].tensor), ())) > 1

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
        if _is_in_parts(plan):
            self._in_parts.add(dims)
        count = self._exchanges[dims] = sum(one.travels for found in plan.exchanges.values() for one in found)
        moved = sent_bytes(self._graph, plan, self._parts)  # between devices of one host as well
        return moved + LATENCY_BYTES * count + COMPUTING * sum(self._made(plan))

    def _made(self, plan: BatchPlan) -> Iterator[float]:
        """Bytes that a replica computes."""
        nodes = self._graph.analysis.nodes
        for name, ways in plan.ways.items():
            for way in ways if plan.inputs[name] else ():
                for k, layout in enumerate(way.outputs[: len(output_types(nodes[name]))]):
                    tensor = tensor_name(name, k)
                    made = size_bytes(self._shapes.shape(tensor) or (), tensor_dtype(nodes, tensor), 1)
                    yield made if isinstance(layout, Whole | Partial) else made / self._parts

    def _tiled(self, dims: Dims) -> TiledVariables:
        return TiledVariables.of_arguments(self._graph.with_tiles(dims), self._parts)
