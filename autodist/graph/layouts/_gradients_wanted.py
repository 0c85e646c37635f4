"""The layouts in which a step wants the gradients of its variables, next to tiled ones.

Whoever chooses the way of a product of activations and gradients has to know what becomes of it: a part along the wrong
dim is as large as any other, but all of it would have to travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from autodist.graph._graph_def import data_inputs, node_of, normalize
from autodist.graph.analysis import StepAnalysis
from autodist.graph.layouts._base import WHOLE, Layout, Tile
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._tiled_variables import TiledVariables
from autodist.graph.layouts._ways import Ways
from autodist.graph.operators import Kind, is_kind, meaning


def gradients_wanted(
    analysis: StepAnalysis, tiled: TiledVariables, shapes: StepShapes, ways: Ways
) -> dict[str, Layout]:
    """By tensor that is a dense gradient, or of which only the form or the place in a sum changes, its wanted layout.

    Args:
        analysis: The flat step.
        tiled: The variables of which each replica has a part.
        shapes: What is known of sizes.
        ways: The ways of nodes.

    Returns:
        Nothing without tiled variables.
    """
    if not tiled.parts:
        return {}
    found: dict[str, Layout] = {}
    todo: list[tuple[str, Layout]] = []
    for name in (name for name, mark in analysis.marks.items() if mark.part == "dense"):
        own = tiled.gradients.get(name)
        todo.append((analysis.nodes[name].input[0], WHOLE) if own is None else (own.source, own.layout))
    while todo:
        tensor, layout = todo.pop()
        if normalize(tensor) not in found:
            found[normalize(tensor)] = layout
            todo += _of_terms(analysis.nodes[node_of(tensor)], layout, shapes, ways)
    return found


def _of_terms(node: Any, wanted: Layout, shapes: StepShapes, ways: Ways) -> Iterator[tuple[str, Layout]]:
    """The inputs that a linear node adds up or moves, with the layouts that make the wanted one of it."""
    if not is_kind(node.op, Kind.ELEMENTWISE, Kind.MOVING) or meaning(node.op).linearity is None:
        return
    size, tensors = _elements(shapes.shape(node.name)), data_inputs(node)
    for position, tensor in enumerate(tensors):
        shape = shapes.shape(tensor)
        if shape is None or size is None or _elements(shape) != size:
            continue
        if wanted == WHOLE:
            yield tensor, WHOLE
        for dim in range(len(shape)) if isinstance(wanted, Tile) else ():
            given: list[Layout] = [Tile(dim) if k == position else WHOLE for k in range(len(tensors))]
            if any(way.outputs == (wanted,) for way in ways.by_inputs(node, given)):
                yield tensor, Tile(dim)
                break


def _elements(shape: Sequence[Any] | None) -> int | None:
    """How many elements a tensor has; None if that depends on the batch."""
    sizes = shape if shape is not None and all(isinstance(size, int) for size in shape) else None
    return None if sizes is None else prod(sizes)
