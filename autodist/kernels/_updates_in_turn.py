"""Updates in turn: where memory is short, updates run one after another, since each needs memory for its variable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, ClassVar

from autodist.graph import StepAnalysis, Variable, data_inputs, has_loops_back, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel


@dataclass(frozen=True)
class _Update:
    """The nodes that update one variable and its slots when its gradient is there, and nothing else.

    Attributes:
        size_bytes: The size of the variable.
        begins: The nodes with inputs from outside the update.
        writes: The nodes that change the variable or its slots.
    """

    size_bytes: int
    begins: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class UpdatesInTurn(Kernel):
    """Have this worker's updates wait for each other, in the order in which their gradients exist.

    As many run at once as change no more bytes together than the largest one alone. Nodes that belong to several
    variables (the norm of all gradients), that lead to where workers meet, or that a later gradient needs do not wait
    for anything new: so no update waits for itself, or for another worker that waits for this one.
    """

    name: ClassVar[str] = "updates-in-turn"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.STATE, Fact.PARTS})

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        editor = graph.edit(graph.layout.main_device)
        for number, (before, after) in enumerate(pairwise(_together(_updates(graph)))):
            writes = [f"^{name}" for update in before for name in update.writes]
            done = editor.add("NoOp", f"autodist/updates_in_turn/{number}", writes)
            for name in (name for update in after for name in update.begins):
                editor.wait_for(name, [done])
        return graph.edited(editor)


def _together(updates: list[_Update]) -> list[list[_Update]]:
    """Updates that may run at once: some that follow each other, up to the size of the largest."""
    most_bytes = max((update.size_bytes for update in updates), default=0)
    found: list[list[_Update]] = []
    left_bytes = 0
    for update in updates:
        if not found or update.size_bytes > left_bytes:
            found.append([])
            left_bytes = most_bytes
        found[-1].append(update)
        left_bytes -= update.size_bytes
    return found


def _updates(graph: DistributedGraph) -> list[_Update]:
    """The updates of this worker's variables that can be told apart, in the order of their gradients."""
    own, analysis = sorted(_own(graph), key=lambda v: v.backward_order), graph.analyze()
    if has_loops_back(graph.graph_def):
        return []
    regions = _regions(graph, analysis, own)
    met = {node_of(tensor) for point in graph.points for tensor in (*point.given, *point.synced)}
    # Where workers meet within an update, as for a norm of all parts, only what follows runs in turn.
    after = [regions[k] - graph.index.ancestors(met & regions[k]) for k in range(len(own))]
    return [
        _Update(variable.size_bytes, tuple(_begins(analysis.nodes, after[number])), writes)
        for number, variable in enumerate(own)
        if (writes := tuple(sorted(after[number] & analysis.writes.keys())))
    ]


def _own(graph: DistributedGraph) -> Iterator[Variable]:
    """The variables that this worker changes within its steps."""
    layout = graph.layout
    beside = {*graph.asynchronous, *(name for serving in graph.serving for name in serving.variables)}
    for variable in graph.variables:
        place = graph.placement.get(variable.name, layout.main_device)
        if variable.gradients and variable.name not in beside and layout.rank_of_tf(place) == layout.rank:
            yield variable


def _begins(nodes: dict[str, Any], region: set[str]) -> Iterator[str]:
    for name in sorted(region):
        if any(node_of(tensor) not in region for tensor in data_inputs(nodes[name])):
            yield name


def _regions(graph: DistributedGraph, analysis: StepAnalysis, own: list[Variable]) -> dict[int, set[str]]:
    """By number of a variable, the nodes after its gradient that lead to its update and to no other gradient."""
    marks = {node_of(t) for v in graph.variables for gradient in v.gradients for t in gradient.tensors}
    leads_to = _leading(analysis, _bits(graph, analysis, own) | dict.fromkeys(marks, 1 << len(own)))
    number_of = {1 << number: number for number in range(len(own))}
    behind: set[str] = set()
    regions: dict[int, set[str]] = defaultdict(set)
    for name in analysis.order:
        if any(source in behind or source in marks for source in map(node_of, analysis.nodes[name].input)):
            behind.add(name)
            if leads_to[name] in number_of:
                regions[number_of[leads_to[name]]].add(name)
    return regions


def _bits(graph: DistributedGraph, analysis: StepAnalysis, own: list[Variable]) -> dict[str, int]:
    """By node that changes variables, the bits of own variables in whose update it is; one bit for all others."""
    numbers = {variable.name: number for number, variable in enumerate(own)}
    trained = {variable.name for variable in graph.variables if variable.gradients}
    bits: dict[str, int] = {}
    for variable in graph.variables:
        owner = variable.owners[0] if len(variable.owners) == 1 else variable.name
        bits[variable.handle] = 1 << numbers.get(owner, len(own)) if owner in trained else 0
    return {name: reduce(or_, map(bits.__getitem__, write.handles)) for name, write in analysis.writes.items()}


def _leading(analysis: StepAnalysis, own: dict[str, int]) -> dict[str, int]:
    """By node, its own bits and those of all that need it."""
    found = dict.fromkeys(analysis.nodes, 0) | own
    for name in reversed(analysis.order):
        for tensor in analysis.nodes[name].input:
            found[node_of(tensor)] |= found[name]
    return found
