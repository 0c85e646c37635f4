"""Differences between a node and its parts along an index, besides the sizes of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.graph._graph_def import data_inputs
from autodist.graph.layouts._base import bounds_of_part
from autodist.graph.layouts._meaning import AlongTiles, signature_of
from autodist.graph.layouts._shapes import Inference
from autodist.graph.operators import Change, expression_of, meaning


@dataclass(frozen=True)
class PartChange:
    """Differences between a node and one of its parts.

    Attributes:
        attributes: Names and values of attributes: texts, whole numbers, or lists of them.
        constants: Positions of constant inputs, each with its shape and its entries.
        padded: Positions of inputs, each with the zeros before and behind it along each dim.
        cropped: By dim, how many places are cut off before and behind the first result.
    """

    attributes: tuple[tuple[str, str | int | tuple[int, ...]], ...] = ()
    constants: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...] = ()
    padded: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()
    cropped: tuple[tuple[int, int], ...] = ()


def changes_of_parts(node: Any, cases: Sequence[Inference], along: AlongTiles) -> tuple[PartChange, ...] | None:
    """By part of a node, what differs there.

    Args:
        node: The node.
        cases: Its shapes for some numbers of examples.
        along: The index that it is cut along.

    Returns:
        An empty tuple where the parts do the same as the node; None where their changes are not known.
    """
    if "shape" in node.attr or (along.outer > 1 and meaning(node.op).adapt is not None):
        return None
    found = {_of_case(node, case, along) for case in cases}
    return found.pop() if len(found) == 1 else None


def _of_case(node: Any, case: Inference, along: AlongTiles) -> tuple[PartChange, ...] | None:
    changes = list(_changes(node, case, along))
    if not all(isinstance(value, str | int | tuple) for change in changes for value in change.attributes.values()):
        return None
    before = {k: case.numbers(data_inputs(node)[k]) for change in changes for k in change.constants}
    if any(value is None or value.dtype.kind not in "iu" for value in before.values()):
        return None
    found = tuple(
        PartChange(_attributes(change), tuple(_constants(change, before)), tuple(change.padded.items()), change.cropped)
        for change in changes
    )
    return found if found != (PartChange(),) * len(found) else ()


def _changes(node: Any, case: Inference, along: AlongTiles) -> Iterator[Change]:
    adapt, signature = meaning(node.op).adapt, signature_of(node, case)
    expression = expression_of(signature)
    if adapt is None or expression is None:
        return
    whole = {name: (0, size or 1) for name, size in expression.sizes.items()}
    _, length = whole[along.index]
    for part in range(along.parts):
        yield adapt(signature, expression, {**whole, along.index: bounds_of_part(length, along.parts, part)})


def _attributes(change: Change) -> tuple[tuple[str, str | int | tuple[int, ...]], ...]:
    pairs = change.attributes.items()
    return tuple((name, value) for name, value in pairs if isinstance(value, str | int | tuple))


def _constants(
    change: Change, before: dict[int, np.ndarray | None]
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    for position, value in change.constants.items():
        made = np.asarray(value)
        if not np.array_equal(made, np.asarray(before[position])):
            yield position, made.shape, tuple(map(int, made.reshape(-1)))
