"""One rewriting of a step for batches of all lengths: that in which its rewritings for some lengths agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from autodist.errors import StrategyError
from autodist.kernels._base import DistributedGraph
from autodist.kernels._length_numbers import Length, LengthNumbers

_SHAPES = "_output_shapes"
_TOLD = frozenset(["graph_def", "valid", "points", "exchanged", "warnings", "notes"])
"""Parts that say sizes, which differ, or that are compared by themselves."""


def for_any_length(graphs: Sequence[DistributedGraph], lengths: Sequence[Length]) -> DistributedGraph:
    """The first of some rewritings, with open dims and computed numbers where the others differ.

    Args:
        graphs: Rewritings of one step, which was described for arguments of several lengths. They must be equal in all
            but shapes, and numbers that are multiples of lengths: what is the same for short and long ones does not
            depend on how long they are.
        lengths: The lengths.

    Raises:
        StrategyError: They are not.
    """
    first, *others = graphs
    for other in others:
        for part in fields(DistributedGraph):
            if part.name not in _TOLD and getattr(first, part.name) != getattr(other, part.name):
                raise _differs(part.name)
        _check_points(first, other)
    nodes, *variants = (_by_name(graph.graph_def.node) for graph in graphs)
    added = _join(nodes, variants, LengthNumbers(lengths, nodes))
    functions, *known = (_by_name(graph.graph_def.library.function, "signature") for graph in graphs)
    for their in known:
        _check_functions(functions, their)
    found = type(first.graph_def)(versions=first.graph_def.versions)
    found.node.extend([*(nodes[node.name] for node in first.graph_def.node), *added])
    found.library.CopyFrom(first.graph_def.library)
    del found.library.function[:]
    found.library.function.extend(functions.values())
    return replace(first, graph_def=found, valid=found)


def _by_name(protos: Any, signature: str = "") -> dict[str, Any]:
    """Copies of nodes or functions without the shapes that were told for a length."""
    found = {}
    for proto in protos:
        copy = type(proto)()
        copy.CopyFrom(proto)
        for node in copy.node_def if signature else (copy,):
            node.attr.pop(_SHAPES, None)
        for arguments in copy.arg_attr.values() if signature else ():
            arguments.attr.pop(_SHAPES, None)
        found[copy.signature.name if signature else copy.name] = copy
    return found


def _check_points(one: DistributedGraph, other: DistributedGraph) -> None:
    if len(one.points) != len(other.points):
        raise _differs("points")
    for mine, its in zip(one.points, other.points, strict=True):
        if replace(mine, shapes=its.shapes) != its:
            raise _differs(mine.name)


def _join(nodes: dict[str, Any], variants: Sequence[Mapping[str, Any]], numbers: LengthNumbers) -> list[Any]:
    """Open the dims of what is fed and differs, have numbers computed that do; return the nodes that compute them.

    Raises:
        StrategyError: Something else differs.
    """
    for other in variants:
        if nodes.keys() != other.keys():
            raise _differs(min(nodes.keys() ^ other.keys()))
    for name, node in nodes.items():
        same = [other[name] for other in variants]
        if node.op.startswith("Placeholder"):
            for other in same:
                _open(node.attr["shape"].shape, other.attr["shape"].shape)
        if all(node == other for other in same):
            continue
        if any(other.op != "Const" for other in (node, *same)) or not numbers.replace([node, *same]):
            raise _differs(name)
    return numbers.added.nodes


def _open(shape: Any, other: Any) -> None:
    if len(shape.dim) != len(other.dim):
        return
    for mine, its in zip(shape.dim, other.dim, strict=True):
        if mine.size != its.size:
            mine.size = its.size = -1


def _check_functions(functions: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    if functions.keys() != others.keys():
        raise _differs(next(iter(functions.keys() ^ others.keys())))
    for name, function in functions.items():
        if function != others[name]:
            raise _differs(name)


def _differs(what: str) -> StrategyError:
    return StrategyError(f"the step is rewritten otherwise for other lengths: `{what}` differs")
