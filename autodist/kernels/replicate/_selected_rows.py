"""The rows of a sparse gradient that are in one part of a variable: a group selects them among those that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autodist.graph import StepAnalysis, TrainingGraph, data_inputs, node_of, normalize
from autodist.graph.layouts import WHOLE, Cut, Layout


@dataclass(frozen=True)
class SelectedRows:
    """The selections of a step.

    Attributes:
        sources: By mark of a gradient's rows in a part, or of their numbers, those of the whole variable.
        pairs: The sources of rows and of their numbers, together.
        nodes: The nodes that select.
    """

    sources: Mapping[str, str]
    pairs: tuple[frozenset[str], ...]
    nodes: frozenset[str]

    @classmethod
    def of(cls, graph: TrainingGraph) -> SelectedRows:
        """Find what the parts of tiled variables take of sparse gradients."""
        analysis = graph.analysis
        sources = {mark: _source(analysis, mark) for mark in _marks(graph) if mark in analysis.marks}
        pairs: dict[int, set[str]] = {}
        for mark, source in sources.items():
            pairs.setdefault(analysis.marks[mark].gradient, set()).add(source)
        distinct = dict.fromkeys(map(frozenset, pairs.values()))
        return cls(sources, tuple(distinct), frozenset(_between(analysis, sources)))

    def layouts(self, had: Mapping[str, Layout]) -> dict[str, Layout]:
        """By source, how groups have it where they select: as they have rows and their numbers, or all of them."""
        found: dict[str, Layout] = {}
        for pair in self.pairs:
            ways = {had.get(source, WHOLE) for source in pair}
            is_cut = len(ways) == 1 and all(isinstance(layout, Cut) and layout.dim == 0 for layout in ways)
            found.update(dict.fromkeys(pair, next(iter(ways)) if is_cut else WHOLE))
        return found


def _marks(graph: TrainingGraph) -> Iterator[str]:
    """The marks of rows, and of their numbers, that are in one of several parts along dim 0."""
    for variable in graph.variables:
        piece = variable.piece
        if piece is not None and piece.tiled_for is not None and variable.shape[0] != piece.whole_shape[0]:
            for gradient in variable.gradients:
                yield from (mark for mark in (gradient.values, gradient.indices) if mark is not None)


def _source(analysis: StepAnalysis, mark: str) -> str:
    """The tensor from which a part's rows are selected; columns may be cut behind that, and numbers shifted."""
    nodes, name = analysis.nodes, mark
    while nodes[name].op != "DynamicPartition":
        name = node_of(nodes[name].input[0])
    return normalize(nodes[name].input[0])


def _between(analysis: StepAnalysis, sources: Mapping[str, str]) -> Iterator[str]:
    """The nodes from sources to marks."""
    ends = set(sources.values())
    stack = [tensor for mark in sources for tensor in data_inputs(analysis.nodes[mark])]
    seen: set[str] = set()
    while stack:
        tensor = normalize(stack.pop())
        name = node_of(tensor)
        if tensor in ends or name in seen or name not in analysis.scalings:
            continue
        seen.add(name)
        yield name
        stack.extend(data_inputs(analysis.nodes[name]))
