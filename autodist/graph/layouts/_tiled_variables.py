"""Variables that are tiled: each replica holds one part of them, computes with it, and updates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autodist.graph._graph_def import data_inputs, node_of
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import Gradient, Variable
from autodist.graph.analysis import StepAnalysis
from autodist.graph.layouts._base import WHOLE, Tile, Whole


@dataclass(frozen=True)
class OwnGradient:
    """The gradient of one part of a variable, at its mark.

    Attributes:
        source: The gradient of the whole variable, of which it is a part; of rows, those that are in this part.
        layout: How it is cut. Row numbers of a sparse gradient are not, nor its rows if these are parts of dim 0.
        part: The number of the part.
    """

    source: str
    layout: Tile | Whole
    part: int


@dataclass(frozen=True)
class TiledVariables:
    """Where the parts of tiled variables are read, and where their gradients are, in a step.

    Attributes:
        parts: How many parts each has: one for each replica of all workers. 0 if there are no such variables.
        examples: The number of examples for which the exchanges are planned; 0 for any.
        reads: By node that puts the parts of a value together, how the value is cut.
        gradients: By mark, the gradient of a part.
        slices: The nodes that cut the gradients of whole variables.
        own: The nodes that compute with what belongs to one part: only the worker that has the part has their values.
        inputs: By placeholder of an argument of which replicas get parts, how it is cut; in several ways if they get
            a part of each.
        meetings: Nodes by which groups of replicas make their values those of the whole batch: what is read of them is
            the same on all workers, and of another size than what a group has.
    """

    parts: int = 0
    examples: int = 0
    reads: Mapping[str, Tile] = field(default_factory=lambda: MappingProxyType({}))
    gradients: Mapping[str, OwnGradient] = field(default_factory=lambda: MappingProxyType({}))
    slices: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    inputs: Mapping[str, tuple[Tile, ...]] = field(default_factory=lambda: MappingProxyType({}))
    meetings: frozenset[str] = frozenset()

    @property
    def given(self) -> frozenset[str]:
        """The nodes whose ways are not free."""
        return self.own | self.slices | self.meetings | self.reads.keys() | self.inputs.keys()

    def in_groups(self, groups: int, meetings: Iterable[str]) -> TiledVariables:
        """The same for a group of replicas, which has its part of the examples and joins the others at these nodes."""
        return replace(self, examples=self.examples // groups, meetings=frozenset(meetings))

    def with_arguments(self, arguments: TiledVariables) -> TiledVariables:
        """The same with arguments of which replicas have parts."""
        return replace(self, parts=arguments.parts, inputs=arguments.inputs)

    @classmethod
    def of_arguments(cls, graph: TrainingGraph, parts: int) -> TiledVariables:
        """The arguments of a step that are cut into this many parts."""
        cut = {node_of(given.tensor): tuple(map(Tile, given.tiles)) for given in graph.inputs if given.tiles}
        return cls(parts, inputs=cut) if cut else cls()

    @classmethod
    def of(cls, graph: TrainingGraph) -> TiledVariables:
        """The tiled variables of a step in which each part is a variable of its own."""
        wholes: dict[str, list[Variable]] = {}
        for variable in graph.variables:
            if variable.piece is not None and variable.piece.tiled_for is not None:
                wholes.setdefault(variable.piece.whole, []).append(variable)
        if not wholes:
            return cls()
        reads: dict[str, Tile] = {}
        gradients: dict[str, OwnGradient] = {}
        for parts in wholes.values():
            tile = _tile_of(parts)
            reads.update((name, tile) for name in _joins(graph, parts))
            gradients.update(_gradients(graph, parts, tile))
        nodes = graph.analysis.nodes
        cut = (mark for mark, own in gradients.items() if own.layout != WHOLE)
        slices = frozenset(node_of(nodes[mark].input[0]) for mark in cut)
        examples = max(part.piece.tiled_for or 0 for parts in wholes.values() for part in parts if part.piece)
        own = _of_one_part(graph.analysis, wholes.values())
        return cls(max(map(len, wholes.values())), examples, reads, gradients, slices, own)

    @classmethod
    def planned(cls, graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int) -> TiledVariables:
        """The tiled variables that a step with whole variables would have.

        Args:
            graph: The step.
            dims: By variable that is to be tiled, the dim that is cut.
            parts: How many parts each is to have.
            examples: The number of examples for which the exchanges are planned.
        """
        analysis = graph.analysis
        tiles = {graph.variable(name).handle: Tile(dim) for name, dim in dims.items()}
        reads = {
            name: tiles[handles[0]]
            for name, handles in analysis.reads.items()
            if handles[0] in tiles and analysis.nodes[name].op == "ReadVariableOp"
        }
        gradients = {
            mark: OwnGradient(analysis.nodes[mark].input[0], Tile(dim) if _is_cut(gradient, mark, dim) else WHOLE, 0)
            for name, dim in dims.items()
            for gradient in graph.variable(name).gradients
            for mark in gradient.tensors
            if mark in analysis.marks
        }
        return cls(parts, examples, reads, gradients)


def _of_one_part(analysis: StepAnalysis, wholes: Iterable[Sequence[Variable]]) -> frozenset[str]:
    """The nodes that compute with the values or the gradient of one part, and with no other one's."""
    handles = {variable.handle: number for parts in wholes for number, variable in enumerate(parts)}
    marks = {
        mark: number
        for parts in wholes
        for number, variable in enumerate(parts)
        for gradient in variable.gradients
        for mark in gradient.tensors
    }
    found: dict[str, int] = {}
    for name in analysis.order:
        touched = {handles[handle] for handle in analysis.reads.get(name, ()) if handle in handles}
        inputs = map(node_of, data_inputs(analysis.nodes[name]))
        taken = {found[source] for source in inputs if source in found}
        numbers = {marks[name]} if name in marks else touched | taken
        if len(numbers) == 1:
            found[name] = numbers.pop()
    return frozenset(found.keys() - marks.keys())


def _tile_of(parts: Sequence[Variable]) -> Tile:
    piece = parts[0].piece
    assert piece is not None
    pairs = zip(parts[0].shape, piece.whole_shape, strict=True)
    return Tile(next(dim for dim, (size, whole) in enumerate(pairs) if size != whole))


def _joins(graph: TrainingGraph, parts: Sequence[Variable]) -> Iterator[str]:
    """The nodes that put the values of all parts together."""
    analysis = graph.analysis
    for name, handles in analysis.reads.items():
        for reader in analysis.consumers.get(name, ()) if handles == (parts[0].handle,) else ():
            read = [node_of(tensor) for tensor in data_inputs(analysis.nodes[reader])[:-1]]
            if [analysis.reads.get(one) for one in read] == [(part.handle,) for part in parts]:
                yield reader


def _gradients(graph: TrainingGraph, parts: Sequence[Variable], tile: Tile) -> Iterator[tuple[str, OwnGradient]]:
    nodes = graph.analysis.nodes
    for part, variable in enumerate(parts):
        for gradient in variable.gradients:
            for mark in gradient.tensors:
                if _is_cut(gradient, mark, tile.dim):
                    cut = nodes[node_of(nodes[mark].input[0])]
                    yield mark, OwnGradient(cut.input[0], tile, part)
                elif mark in graph.analysis.marks:
                    yield mark, OwnGradient(nodes[mark].input[0], WHOLE, part)


def _is_cut(gradient: Gradient, mark: str, dim: int) -> bool:
    """Whether a part of a variable that is cut along a dim has a part of a gradient's tensor: row numbers have none."""
    return mark == gradient.dense or (dim > 0 and mark == gradient.values)
