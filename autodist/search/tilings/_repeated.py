"""Finds equal parts of a coarse graph by hashing, to decide them once: steps of a recurrence, equal layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseOperator
from autodist.search.tilings._unions import Unions


@dataclass(frozen=True)
class Quotient:
    """A graph in which tensors that must have one layout are one, and so are operators that are then alike.

    Attributes:
        graph: The smaller graph.
        place: By tensor of the whole graph, its tensor in the smaller graph.
    """

    graph: CoarseGraph
    place: tuple[int, ...]


def alike_steps(graph: CoarseGraph) -> Quotient:
    """Decide once for operators that take or make the same stored tensor and are of one kind.

    Those are the steps of an unrolled recurrence (Tofu, section 5.1). Tensors that are computed in the same way from
    tensors of one layout have one layout, too.
    """
    unions = Unions(range(len(graph.tensors)))
    numbers: dict[object, int] = {}
    kinds = [numbers.setdefault(_kind(graph, operator), len(numbers)) for operator in graph.operators]
    before = -1
    while before != (before := len({unions.of(t) for t in range(len(graph.tensors))})):
        groups: dict[object, CoarseOperator] = {}
        for operator, kind in zip(graph.operators, kinds, strict=True):
            for key in _keys(graph, operator, kind, unions):
                first = groups.setdefault(key, operator)
                if first is not operator:
                    _join(graph, unions, first, operator)
    return _quotient(graph, [unions.of(t) for t in range(len(graph.tensors))])


def _kind(graph: CoarseGraph, operator: CoarseOperator) -> object:
    return operator.forms, len(operator.inputs), tuple(graph.tensors[t].shape for t in operator.operands)


def _keys(graph: CoarseGraph, operator: CoarseOperator, kind: int, unions: Unions[int]) -> list[object]:
    stored = [(kind, k, unions.of(t)) for k, t in enumerate(operator.operands) if graph.tensors[t].stored]
    return [*stored, (kind, tuple(map(unions.of, operator.inputs)))]


def _join(graph: CoarseGraph, unions: Unions[int], one: CoarseOperator, other: CoarseOperator) -> None:
    for a, b in zip(one.operands, other.operands, strict=True):
        if not graph.tensors[a].stored and not graph.tensors[b].stored:
            unions.join(a, b)


def alike_layers(graph: CoarseGraph, rounds: int = 6) -> Quotient:
    """Decide once for tensors whose surroundings are alike, as far as this many operators reach.

    Repeated layers then have the same layouts, except at their boundaries to other layers.
    """
    colors = [hash((t.shape, t.item_bytes, t.stored, t.may_be_partial)) for t in graph.tensors]
    for _ in range(rounds):
        around: list[list[int]] = [[] for _ in colors]
        for operator in graph.operators:
            color = hash((operator.forms, operator.count, tuple(colors[t] for t in operator.operands)))
            for position, t in enumerate(operator.operands):
                around[t].append(hash((color, position)))
        colors = [hash((color, tuple(sorted(near)))) for color, near in zip(colors, around, strict=True)]
    return _quotient(graph, colors)


def _quotient(graph: CoarseGraph, classes: Sequence[int]) -> Quotient:
    first: dict[int, int] = {}
    members: dict[int, list[int]] = defaultdict(list)
    for t, group in enumerate(classes):
        first.setdefault(group, len(first))
        members[first[group]].append(t)
    place = tuple(first[group] for group in classes)
    tensors = tuple(
        replace(graph.tensors[among[0]], stored=sum(graph.tensors[t].stored for t in among))
        for among in members.values()
    )
    found: dict[object, CoarseOperator] = {}
    for operator in graph.operators:
        inputs, outputs = (tuple(place[t] for t in some) for some in (operator.inputs, operator.outputs))
        key = (inputs, outputs, operator.forms, operator.may_repeat)
        known = found.get(key)
        count = operator.count + (known.count if known else 0)
        found[key] = replace(known or operator, inputs=inputs, outputs=outputs, count=count)
    return Quotient(CoarseGraph(tensors, tuple(found.values()), graph.unequal), place)
