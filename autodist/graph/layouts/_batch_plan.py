"""A plan of a step: the ways of its nodes, and the replicas' exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autodist.graph._graph_def import itemsize, tensor_name
from autodist.graph.layouts._base import Dim, Layout, Multiple, Partial, Stretch, Tile, Whole
from autodist.graph.layouts._places import count_from_others
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._tiled_variables import TiledVariables
from autodist.graph.layouts._way import Way
from autodist.graph.operators import Kind, is_kind


class NoPlanError(ValueError):
    """A step can't be shared by replicas so that each tensor is exact; says why.

    Args:
        message: Why.
        node: The node that it is about; empty if it is about no single one.
    """

    def __init__(self, message: str, node: str = "") -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True)
class Exchange:
    """A tensor that is needed in another form than it is computed in.

    Attributes:
        tensor: Which.
        source: How it is computed.
        target: How it is needed.
    """

    tensor: str
    source: Layout
    target: Layout

    @property
    def travels(self) -> bool:
        """Whether anything is sent.

        No bytes travel where a replica slices its part from a whole tensor, or pads its tile to a term of a sum.
        """
        return not isinstance(self.source, Whole) and not (isinstance(self.source, Tile) and self.target == Partial())


@dataclass(frozen=True)
class BatchPlan:
    """How the replicas of a step share its work.

    Attributes:
        shapes: The shapes and small whole numbers of the step.
        order: The nodes that are needed, inputs first.
        ways: By node, the ways in which it is computed.
        exchanges: By tensor, the forms that it is needed in besides its own.
        layouts: By tensor, how it is computed.
        marks: By mark of a gradient that depends on the batch, how replicas have it when they meet.
        dtypes: The element types of the tensors that are exchanged.
        inputs: By node, its inputs.
        tiled: The variables of which each replica has a part.
    """

    shapes: StepShapes
    order: tuple[str, ...]
    ways: Mapping[str, tuple[Way, ...]]
    exchanges: Mapping[str, tuple[Exchange, ...]]
    layouts: Mapping[str, Layout]
    marks: Mapping[str, Layout]
    dtypes: Mapping[str, str]
    inputs: Mapping[str, tuple[str, ...]]
    tiled: TiledVariables

    @property
    def is_apart(self) -> bool:
        """Whether no replica needs anything from another one before it has its part of all gradients and values."""
        met: set[tuple[str, Layout]] = set()
        for name in self.order:
            for way in self.ways[name]:
                taken = zip(self.inputs[name], way.inputs, strict=False)
                is_met = name in self.marks or any(given in met for given in taken)
                if is_met and not way.is_whole and name not in self.marks:
                    return False
                if is_met:
                    met.update((tensor_name(name, k), layout) for k, layout in enumerate(way.outputs))
            for k in range(len(self.ways[name][0].outputs)):
                for exchange in self.exchanges.get(tensor_name(name, k), ()):
                    if (exchange.tensor, exchange.source) in met:
                        return False
                    if exchange.travels:
                        met.add((exchange.tensor, exchange.target))
        return True

    def stretches_of(self, tensor: str) -> tuple[Stretch, ...]:
        """The places that replicas need around their parts of a tensor, by use; one exchange gives them all."""
        found = (one.target for one in self.exchanges.get(tensor, ()) if isinstance(one.source, Tile))
        return tuple(target for target in found if isinstance(target, Stretch))

    def bytes_of(self, tensor: str, batch_size: int) -> int:
        """Bytes of a tensor for a number of examples, as far as its dims are known."""
        return size_bytes(self.shapes.shape(tensor) or (), self.dtypes[tensor], batch_size)

    def asks(self, node: Any) -> bool:
        """Whether a node asks for sizes that are known without its input."""
        return asks_for_sizes(self.shapes, node, len(self.ways[node.name][0].outputs))


def size_bytes(shape: Sequence[Dim], dtype: str, batch_size: int) -> int:
    """Bytes of a tensor of this shape and element type, as far as its dims are known."""
    return prod(lengths_of(shape, batch_size)) * itemsize(dtype)


def neighbours_bytes(stretches: Sequence[Stretch], whole: float) -> float:
    """The bytes that replicas send each other for stretches, divided by the number of borders between their parts.

    Args:
        stretches: The places that each replica needs of a tensor; it has its part.
        whole: The bytes of the whole tensor.
    """
    borders = max(1, len(stretches[0].bounds) - 1)
    return whole / max(1, stretches[0].length) * count_from_others(stretches) / borders


def lengths_of(shape: Sequence[Dim], batch_size: int) -> tuple[int, ...]:
    """The length of each dim for a number of examples; 1 for one that is not known."""
    return tuple(size.times * batch_size if isinstance(size, Multiple) else size or 1 for size in shape)


def asks_for_sizes(shapes: StepShapes, node: Any, outputs: int) -> bool:
    """Whether a node asks for sizes that are known without its input."""
    if not is_kind(node.op, Kind.SHAPE):
        return False
    entries = [shapes.numbers(tensor_name(node.name, k)) for k in range(outputs)]
    return all(found is not None and None not in found for found in entries)
